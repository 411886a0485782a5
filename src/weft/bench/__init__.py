"""Measuring Weft against its peers: contenders that alternate in short blocks, paired ratios, plain reports."""
