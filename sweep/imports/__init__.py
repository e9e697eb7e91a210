"""From a user's file of utterances to a corpus, a label schema and a starting space."""
