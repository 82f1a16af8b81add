"""Colours of curves and bars that are distinct for colour-blind readers (Okabe and Ito), the palest last."""

PALETTE = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#999999", "#f0e442")
