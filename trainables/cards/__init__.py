"""Privacy cards: what a trial's epsilon says, for whom, and what it leaves out, on one page."""
