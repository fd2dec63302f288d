"""The scenarios of ../../scenarios.json, shown with the unmodified azure-servicebus and its synchronous API.

    python -m scenarios

runs them all, or those that LEDGERBUS_ONLY names; ../../run says what else it finds in its environment. A module holds
one group of the list (admin has two), a function one scenario: it is read beside the scenario's steps, which it follows
line by line.
bus.py has the verbs of the list (send, receive, nothing, peek all ...), expect.py its demands.
"""
