"""Engine topologies: standalone, Sentinel and Cluster; requirements and health of their nodes."""
