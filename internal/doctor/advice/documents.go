package advice

import (
	"encoding/json"
	"time"
)

// These types contain the fields that the advice needs from the API server's objects. The fields
// have no JSON tags, because encoding/json ignores case in field names.

// list is one page of a list of objects, or the list of API groups.
type list struct {
	Metadata struct{ Continue string }
	Items    []json.RawMessage
}

type meta struct {
	Name, Namespace     string
	Labels, Annotations map[string]string
	CreationTimestamp   time.Time
	DeletionTimestamp   *time.Time
	OwnerReferences     []owner
	ManagedFields       []struct{ Time time.Time }
}

func (m *meta) changed() time.Time {
	last := m.CreationTimestamp
	for _, f := range m.ManagedFields {
		if f.Time.After(last) {
			last = f.Time
		}
	}
	return last
}

func (m *meta) full() string { return m.Namespace + "/" + m.Name }

type owner struct {
	Kind, Name string
	Controller bool
}

type node struct {
	Metadata meta
	Spec     struct{ Taints []taint }
	Status   struct {
		Capacity   map[string]string
		Conditions []condition
		NodeInfo   struct{ OSImage string }
	}
}

type taint struct{ Key, Value, Effect string }

type condition struct{ Type, Status, Reason, Message string }

type daemonSet struct {
	Metadata meta
	Spec     struct {
		Selector struct{ MatchLabels map[string]string }
		Template struct {
			Metadata meta
			Spec     podSpec
		}
	}
	Status struct{ DesiredNumberScheduled int }
}

type pod struct {
	Metadata meta
	Spec     podSpec
	Status   struct {
		Phase, Reason, Message string
		Conditions             []condition
		ContainerStatuses      []containerStatus
	}
}

type podSpec struct {
	NodeName     string
	NodeSelector map[string]string
	Affinity     struct {
		NodeAffinity struct {
			Required *nodeSelector `json:"requiredDuringSchedulingIgnoredDuringExecution"`
		}
	}
	Tolerations                        []toleration
	Containers, InitContainers         []container
	Volumes                            []volume
	RuntimeClassName                   string
	ShareProcessNamespace, HostNetwork bool
	HostUsers                          *bool
	OS                                 struct{ Name string }
	Resources                          json.RawMessage
}

type nodeSelector struct{ NodeSelectorTerms []term }

// term matches a Node if all its requirements match.
type term struct{ MatchExpressions, MatchFields []requirement }

type requirement struct {
	Key, Operator string
	Values        []string
}

type toleration struct{ Key, Operator, Value, Effect string }

type container struct {
	Name, Image string
	Args        []string
	Env         []struct{ Name, Value string }
}

type volume struct {
	Name     string
	HostPath struct{ Path string }
}

type containerStatus struct {
	Name             string
	Ready            bool
	RestartCount     int
	State, LastState struct {
		Waiting    *struct{ Reason, Message string }
		Terminated *struct {
			Reason, Message string
			ExitCode        int
		}
	}
}

type policy struct {
	Metadata meta
	Spec     struct {
		MatchConstraints struct {
			NamespaceSelector struct{ MatchExpressions []requirement }
		}
		MatchConditions []struct{ Name string }
	}
}

type binding struct {
	Metadata meta
	Spec     struct {
		PolicyName string
		ParamRef   struct{ Namespace, Name string }
	}
}

type webhooks struct {
	Metadata meta
	Webhooks []struct {
		ClientConfig struct {
			CABundle string
			Service  struct{ Namespace string }
		}
		NamespaceSelector struct{ MatchExpressions []requirement }
		MatchConditions   []struct{ Name string }
	}
}

type configMap struct {
	Metadata meta
	Data     map[string]string
}

type resourceSlice struct {
	Metadata meta
	Spec     struct{ Driver, NodeName string }
}

type event struct {
	InvolvedObject struct{ Kind, Name string }
	Type, Message  string
	LastTimestamp  time.Time
}

type deployment struct {
	Metadata meta
	Spec     struct{ Template struct{ Spec podSpec } }
}

type apiGroups struct {
	Groups []struct {
		Name     string
		Versions []struct{ Version string }
	}
}

type apiResources struct{ Resources []struct{ Name string } }
