package nodes

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/record"

	typedcore "k8s.io/client-go/kubernetes/typed/core/v1"
)

func objects() *runtime.Scheme { return scheme.Scheme }

// sinkOf sends events to the API server. Those of Nodes live in the namespace default.
func sinkOf(kube kubernetes.Interface) record.EventSink {
	return &typedcore.EventSinkImpl{Interface: kube.CoreV1().Events("")}
}
