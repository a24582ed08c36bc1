"""The page for carers and researchers: what the services on a broker say of their wearers, and people's acts.

`board` makes of messages what there is to see now, `history` keeps what was told of alerts in a file, `access` knows
who may look and who may act, `feed` joins them with the broker, `web` answers browsers, `serving` runs it all.
"""
