"""What a verdict says, in sentences. Nothing here decides anything."""
