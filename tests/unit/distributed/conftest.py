import os

from assay.distributed import UNTRACKED

os.environ.update(UNTRACKED)
