"""Check of resources whose kinds come with KEDA and the Prometheus Operator. Run by the Python of `.deploy-tools`.

kubernetes-validate knows the kinds of Kubernetes only. The models of these packages are made from the definitions that
the two projects publish.
"""

import sys

import yaml
from cloudcoil.models.keda.v1alpha1 import ScaledObject, TriggerAuthentication
from cloudcoil.models.prometheus_operator.v1 import PrometheusRule, ServiceMonitor

MODELS = {model.__name__: model for model in (ScaledObject, TriggerAuthentication, PrometheusRule, ServiceMonitor)}


def main() -> None:
    for document in yaml.safe_load_all(sys.stdin):
        MODELS[document["kind"]].model_validate(document, extra="forbid")
        print(document["kind"], document["metadata"]["name"])


if __name__ == "__main__":
    main()
