"""The five papers behind Steelyard as experiments: `steelyard paper p0 … p4`.

Each module `p0` … `p4` runs the experiment of a paper, recorded where its data are given and simulated with a known
truth otherwise, and returns a `PaperPage`: tables of printed numbers next to ours, figures, and claims that must hold.
`printed/` holds what the papers print, `setups/` the robots and motions, `misprints` what the papers print wrong.
"""
