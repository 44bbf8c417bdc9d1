"""A pretrained network that knows when not to be trusted."""

import os

os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")  # some processors have it off: twice as fast
