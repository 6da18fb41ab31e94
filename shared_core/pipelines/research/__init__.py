"""ReSearch (Piché et al.): search for an answer worth giving, or give none.

``loop``: the pipeline. ``search``: K rounds of J candidates (Algorithm 1). ``claims``: candidates cut into claims.
``evaluate``: how likely is a claim? ``passages``: the same by what the passages say. ``layout``: the candidate's text
with marks. ``prompts``: what the models are told.
"""
