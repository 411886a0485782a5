"""Who talks to whom: one recipe per file, each makes a Graph for any number of places it fits.

Mixing weights are in weights.py, convergence rates in spectrum.py, terminal pictures in drawing.py.
"""

from weft.topologies.complete import Complete
from weft.topologies.custom import Custom
from weft.topologies.exponential import Exponential
from weft.topologies.hierarchy import Hierarchy
from weft.topologies.hypercube import Hypercube
from weft.topologies.mesh import Mesh
from weft.topologies.random_regular import RandomRegular
from weft.topologies.ring import Ring
from weft.topologies.star import Star
from weft.topologies.topology import Topology
from weft.topologies.torus import Torus
from weft.topologies.tree import Tree

__all__ = [
    "Complete",
    "Custom",
    "Exponential",
    "Hierarchy",
    "Hypercube",
    "Mesh",
    "RandomRegular",
    "Ring",
    "Star",
    "Topology",
    "Torus",
    "Tree",
]
