"""From a project file to a run folder."""
