"""The doctor: examine any attention module or function by changing one thing at a time.

``companion.diagnostics.doctor`` is the way in; ``python -m companion.doctor`` is its command line.
"""

from companion.clinic.adapter import Adapter
from companion.clinic.entry import doctor
from companion.clinic.report import Finding, Outcome, Report

__all__ = ["Adapter", "Finding", "Outcome", "Report", "doctor"]
