import sys

from steelyard.findings.page import page
from steelyard.findings.registry import CODES

sys.stdout.write(page(CODES.values()))
