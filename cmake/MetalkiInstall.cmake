# Where `find_package(metalki)` and the Python package find the library. Filled by the packaging rules.
