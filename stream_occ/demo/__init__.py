"""The demo: embedded broker, synthetic wearers, a model of their normal activity, and the real service, in one run.

`wearers` says who lives through what, `model` trains, `ledger` holds alerts against the falls that were simulated,
`screen` shows, `run` puts them together. Wearers and falls are synthetic: no figure of a demo says anything of people.
"""
