"""The fake workloads are found by their entry points, here and in child processes."""

from offered_fakes import offer_fakes

offer_fakes()
