"""What commands of the command line share: names, screens, lists, and the template of a workload."""
