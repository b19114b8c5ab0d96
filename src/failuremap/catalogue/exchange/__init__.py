"""What goes out and what comes in: data sets, bundles, tiers and splits; records of other makers."""
