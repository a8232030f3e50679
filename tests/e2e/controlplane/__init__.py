"""A real Kubernetes control plane for tests, without containers.

`build` makes kube-apiserver, kube-scheduler, kube-controller-manager and etcd from their Go
modules; `cluster` starts and stops them; `objects` and `client` write API objects; `kubelet`
stands in for the nodes' agents.
"""
