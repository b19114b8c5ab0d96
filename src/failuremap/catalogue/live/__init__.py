"""Each mechanism in a real training job: `slug.py` has it, `slug.py --fixed` is the same job repaired."""
