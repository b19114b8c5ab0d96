"""The catalogue as pages: a folder of files that works from a disk, without JavaScript, and asks nothing elsewhere."""

from failuremap.site.build import Built, build

__all__ = ["Built", "build"]
