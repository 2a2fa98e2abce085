// Package event defines the format of events about GPU pods and their workloads. The reconciler logs these events, and
// sends them to the archive. Each event is one line of JSON.
package event

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Path is the URL path at which the archive receives events, in the body of a POST request. [ClusterParameter] is the
// query parameter with the name of the cluster.
const (
	Path             = "/api/v1/events"
	ClusterParameter = "cluster"
	// RepeatHeader is a header of the archive's response. If its value is "true", a sink may have lost events, and the
	// sender must send the current state again.
	RepeatHeader = "Gpuledger-Repeat"
)

// Snapshot is the kind of an event with the pod itself.
const Snapshot = "snapshot"

const (
	// MaxLine limits a line, in bytes. The JSON of a pod is always shorter, because the API server stores at most 1.5
	// MiB per pod, in a more compact encoding.
	MaxLine = 4 << 20
	// MaxID limits an id, in bytes. Every database can index an id of this length.
	MaxID = 255
	// MaxText limits all other texts, in bytes. It does not apply to the details and the object.
	MaxText = 1024
	// maxDetails limits the details, in bytes, because a database column contains them.
	maxDetails = 256 << 10
	// maxNumber limits the text of a number. maxDepth limits the nesting of objects and lists. The JSON of a pod has
	// about ten levels. Some databases cannot read more than a hundred levels.
	maxNumber = 40
	maxDepth  = 32
)

// Event describes a change of a pod or of a workload.
type Event struct {
	Kind string `json:"event"`
	// ID identifies the change among all changes in a cluster. If an event is repeated, its ID and time are the same.
	ID string    `json:"id"`
	At time.Time `json:"at"`

	Namespace       string `json:"namespace,omitempty"`
	Pod             string `json:"pod,omitempty"`
	PodUID          string `json:"pod_uid,omitempty"`
	ResourceVersion string `json:"resource_version,omitempty"`
	Node            string `json:"node,omitempty"`
	// OwnerKind and OwnerName identify the controller of the pod or workload.
	OwnerKind string `json:"owner_kind,omitempty"`
	OwnerName string `json:"owner_name,omitempty"`
	// WorkloadKind, WorkloadName and WorkloadUID are empty for an event of a pod.
	WorkloadKind string `json:"workload_kind,omitempty"`
	WorkloadName string `json:"workload_name,omitempty"`
	WorkloadUID  string `json:"workload_uid,omitempty"`

	// Object is the pod in a snapshot.
	Object json.RawMessage `json:"object,omitempty"`
	// Details is a JSON object whose fields depend on the kind. It may be nil.
	Details json.RawMessage `json:"-"`
}

// ID joins the parts of an id. If the id is too long, a digest replaces its end.
func ID(parts ...string) string {
	id := strings.Join(parts, "/")
	if len(id) <= MaxID {
		return id
	}
	digest := sha256.Sum256([]byte(id))
	suffix := "/" + hex.EncodeToString(digest[:])
	return strings.ToValidUTF8(id[:MaxID-len(suffix)], "") + suffix
}

// Append appends the line of an event, including the line break. Details must not contain the names of other fields.
func (e *Event) Append(b []byte) ([]byte, error) {
	if err := e.checkDetails(); err != nil {
		return b, fmt.Errorf("encode event %s: %w", e.ID, err)
	}
	head, err := encode(e)
	if err != nil {
		return b, fmt.Errorf("encode event %s: %w", e.ID, err)
	}
	start := len(b)
	b = append(b, head...)
	if len(e.Details) > len("{}") {
		b = append(append(b[:len(b)-1], ','), e.Details[1:]...)
	}
	b = append(b, '\n')
	if n := len(b) - start; n > MaxLine {
		return b[:start], fmt.Errorf("encode event %s: the line has %d bytes, but the limit is %d bytes", e.ID, n, MaxLine)
	}
	return b, nil
}

func (e *Event) fields() map[string]*string {
	return map[string]*string{
		"event": &e.Kind, "id": &e.ID, "namespace": &e.Namespace, "pod": &e.Pod, "pod_uid": &e.PodUID, "resource_version": &e.ResourceVersion, "node": &e.Node,
		"owner_kind": &e.OwnerKind, "owner_name": &e.OwnerName,
		"workload_kind": &e.WorkloadKind, "workload_name": &e.WorkloadName, "workload_uid": &e.WorkloadUID,
	}
}

func (e *Event) check() error {
	if e.Kind == "" || e.ID == "" {
		return errors.New("the event or the id is empty")
	}
	if len(e.ID) > MaxID {
		return fmt.Errorf("id has %d bytes, but the limit is %d", len(e.ID), MaxID)
	}
	for name, text := range e.fields() {
		if len(*text) > MaxText {
			return fmt.Errorf("%s has %d bytes, but the limit is %d", name, len(*text), MaxText)
		}
	}
	return e.checkDetails()
}

func (e *Event) checkDetails() error {
	if len(e.Details) > maxDetails {
		return fmt.Errorf("the details have %d bytes, but the limit is %d", len(e.Details), maxDetails)
	}
	return nil
}
