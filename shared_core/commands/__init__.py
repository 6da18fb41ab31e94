"""The commands of ``selfreflect``, one file each; ``shared_core.cli`` puts them together."""
