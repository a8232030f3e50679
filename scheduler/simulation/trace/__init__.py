"""What a policy makes of a trace: whole clusters and months of jobs, decided in seconds.

No clock runs here and no API server is played. Jobs arrive, end, and are placed on numbers, so that
several policies can be compared on the same jobs. Muster's is the engine that runs live.
"""
