"""The group proton of ../../scenarios.json, shown with the unmodified python-qpid-proton.

    python -m scenarios

runs it, or what LEDGERBUS_ONLY names of it; ../../run says what else it finds in its environment. transactions.py has the
scenarios, each a function that is read beside its steps; bus.py has the words that they use.
"""
