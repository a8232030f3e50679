"""Generated pods, each with the one node that it may go to, to be judged by two schedulers.

`world` is what is made of them; `resources`, `rules` and `ports` draw them from a seed; `judging`
asks Muster's own feasibility. Pods are held to their node by a label, so that their number does
not matter to each other, and resources that they are not about are there in plenty.
"""
