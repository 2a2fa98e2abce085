package podmapper

import (
	"errors"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/proc"
)

// pod is a Pod (k8s.io/api/core/v1) from the kubelet's Pods API, with only the fields that the mapper uses. The
// functions below contain the field numbers. The program does not import k8s.io/api. Otherwise it would be 40 % larger
// and require fifteen more modules.
type pod struct {
	podName
	uid     string // for a static pod, 32 hex digits, as in the name of the pod's cgroup
	deleted bool   // set if the pod has a deletion timestamp
	phase   string
	// containers contains the names of all containers, including init and ephemeral containers.
	containers []string
	statuses   []containerStatus
	// extended contains the extended resources that the pod's claim for extended resources represents.
	extended []extendedResource
	claim    string           // name of the pod's claim for extended resources
	groups   []string         // names of the groups in which the pod shares GPUs with other pods
	vgpus    []gpu.DeviceName // GPUs that HAMi's scheduler chose
}

type containerStatus struct {
	name, id   string // id without the prefix of the runtime; may be empty
	terminated bool
}

// extendedResource is an extended resource that DRA serves (KEP-5004).
type extendedResource struct{ container, resource string }

// alive reports whether the pod holds its devices. A pod holds its devices from its admission until it ends. After its
// deletion, it still holds its devices until its containers have ended.
func (p *pod) alive() bool {
	running := func(s containerStatus) bool { return !s.terminated }
	switch {
	case p.phase == "Succeeded" || p.phase == "Failed":
		return false
	case p.deleted && len(p.statuses) > 0:
		return slices.ContainsFunc(p.statuses, running)
	}
	return true
}

func (p *pod) container(container string) gpu.Owner {
	return gpu.Owner{Kind: gpu.OwnerPod, Scope: p.namespace, Name: p.pod, UID: p.uid, Part: container}
}

// resourceOf returns the extended resource that the claim represents for a container. If container is empty, it
// considers all containers. It returns "" unless there is exactly one such resource.
func (p *pod) resourceOf(container, claim string) (resource string) {
	for _, e := range p.extended {
		if claim != p.claim || container != "" && e.container != container || e.resource == resource {
			continue
		}
		if resource != "" {
			return ""
		}
		resource = e.resource
	}
	return resource
}

// parsePod reads a Pod: metadata = 1, spec = 2, status = 3.
func parsePod(data []byte) (p pod, err error) {
	err = eachField(data, func(n protowire.Number, value []byte) error {
		switch n {
		case 1:
			return p.parseMetadata(value)
		case 2:
			return p.parseSpec(value)
		case 3:
			return p.parseStatus(value)
		}
		return nil
	})
	if err != nil {
		return pod{}, err
	}
	return p, nil
}

// wellFormed reports whether the UID and the names of the pod are valid. Processes cannot be attributed to other pods,
// such as a static pod whose manifest contains an arbitrary UID.
func (p *pod) wellFormed() bool {
	return validUID(p.uid) && validName(p.namespace) && validName(p.pod)
}

// parseMetadata reads an ObjectMeta: name = 1, namespace = 3, uid = 5, deletionTimestamp = 9,
// labels = 11, annotations = 12. In a map entry, key = 1 and value = 2.
func (p *pod) parseMetadata(data []byte) error {
	return eachField(data, func(n protowire.Number, value []byte) error {
		switch n {
		case 1:
			p.pod = string(value)
		case 3:
			p.namespace = string(value)
		case 5:
			p.uid = string(value)
		case 9:
			p.deleted = true
		case 11, 12:
			name, err1 := stringField(value, 1)
			text, err2 := stringField(value, 2)
			if n == 11 {
				p.addLabel(name, text)
			} else {
				p.addAnnotation(name, text)
			}
			return errors.Join(err1, err2)
		}
		return nil
	})
}

// parseSpec reads a PodSpec: containers = 2, initContainers = 20, ephemeralContainers = 34. In containers and
// initContainers, field 1 is the name. In ephemeralContainers, field 1 is a message with the name in its field 1.
func (p *pod) parseSpec(data []byte) error {
	return eachField(data, func(n protowire.Number, value []byte) error {
		var name string
		var err error
		switch n {
		case 2, 20:
			name, err = stringField(value, 1)
		case 34:
			value, err = field(value, 1)
			if err == nil {
				name, err = stringField(value, 1)
			}
		default:
			return nil
		}
		p.containers = append(p.containers, name)
		return err
	})
}

// parseStatus reads a PodStatus: phase = 1, containerStatuses = 8, initContainerStatuses = 10,
// ephemeralContainerStatuses = 13, extendedResourceClaimStatus = 18.
func (p *pod) parseStatus(data []byte) error {
	return eachField(data, func(n protowire.Number, value []byte) error {
		switch n {
		case 1:
			p.phase = string(value)
		case 8, 10, 13:
			s, err := parseContainerStatus(value)
			p.statuses = append(p.statuses, s)
			return err
		case 18:
			return p.parseExtended(value)
		}
		return nil
	})
}

// parseContainerStatus reads a ContainerStatus: name = 1, state = 2, containerID = 8, such as
// containerd://<id>. In a ContainerState, terminated = 3.
func parseContainerStatus(data []byte) (s containerStatus, err error) {
	err = eachField(data, func(n protowire.Number, value []byte) error {
		switch n {
		case 1:
			s.name = string(value)
		case 2:
			return eachField(value, func(n protowire.Number, _ []byte) error {
				s.terminated = s.terminated || n == 3
				return nil
			})
		case 8:
			if _, id, ok := strings.Cut(string(value), "://"); ok && proc.IsContainerID(id) {
				s.id = id
			}
		}
		return nil
	})
	return s, err
}

// parseExtended reads a PodExtendedResourceClaimStatus: requestMappings = 1, resourceClaimName = 2.
// In a request mapping, containerName = 1 and resourceName = 2.
func (p *pod) parseExtended(data []byte) error {
	return eachField(data, func(n protowire.Number, value []byte) error {
		switch n {
		case 1:
			container, err1 := stringField(value, 1)
			resource, err2 := stringField(value, 2)
			p.extended = append(p.extended, extendedResource{container, resource})
			return errors.Join(err1, err2)
		case 2:
			p.claim = string(value)
		}
		return nil
	})
}

// eachField calls visit for each field of a message that is a string, bytes or a message, until the first error.
func eachField(data []byte, visit func(protowire.Number, []byte) error) error {
	for len(data) > 0 {
		n, kind, size := protowire.ConsumeTag(data)
		if size < 0 {
			return protowire.ParseError(size)
		}
		data = data[size:]
		size = protowire.ConsumeFieldValue(n, kind, data)
		if size < 0 {
			return protowire.ParseError(size)
		}
		if kind == protowire.BytesType {
			value, _ := protowire.ConsumeBytes(data)
			if err := visit(n, value); err != nil {
				return err
			}
		}
		data = data[size:]
	}
	return nil
}

// field returns a field of a message, or nil if the field is missing.
func field(data []byte, want protowire.Number) (found []byte, err error) {
	err = eachField(data, func(n protowire.Number, value []byte) error {
		if n == want {
			found = value
		}
		return nil
	})
	return found, err
}

func stringField(data []byte, want protowire.Number) (string, error) {
	value, err := field(data, want)
	return string(value), err
}
