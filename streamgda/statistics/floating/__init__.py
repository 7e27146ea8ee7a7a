"""The floating state: means and centred scatters in float64, each mean to twice that precision."""
