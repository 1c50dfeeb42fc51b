"""The YAML files, shipped as a package so that Hydra finds them in a wheel."""
