"""SVG drawn by podium: charts, and outlines over images."""
