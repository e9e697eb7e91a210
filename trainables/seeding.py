"""Named, independent generators from one public seed (`guarantee.seeding`), for what is public:
initialisation, splits, dropout, bootstrap.
"""

from trainables.guarantee.seeding import GOLDEN as GOLDEN
from trainables.guarantee.seeding import generator as generator
from trainables.guarantee.seeding import mix as mix
from trainables.guarantee.seeding import stream_seed as stream_seed
