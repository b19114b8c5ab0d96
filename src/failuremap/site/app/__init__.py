"""The member area: the same pages as the static site, and behind an invitation the repairs and the judge.

One process serves, another judges, a SQLite file holds what members do. Nothing here is imported by the rest.
"""
