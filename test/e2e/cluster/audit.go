//go:build e2e

package cluster

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// auditPolicy logs the metadata of every write and of every request of a service account when the response is complete.
// It also logs the start of each watch, because a watch is complete only when it ends.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  verbs: [create, update, patch, delete, deletecollection]
- level: Metadata
  userGroups: ["system:serviceaccounts"]
- level: None
`

// A Request is an entry of the audit log.
type Request struct {
	ID    string    `json:"auditID"`
	Time  time.Time `json:"requestReceivedTimestamp"`
	Stage string    `json:"stage"` // ResponseStarted (for a watch) or ResponseComplete
	Verb  string    `json:"verb"`
	URI   string    `json:"requestURI"`
	Agent string    `json:"userAgent"`
	User  struct {
		Name string `json:"username"`
	} `json:"user"`
	Object struct {
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
		Namespace   string `json:"namespace"`
		Name        string `json:"name"`
	} `json:"objectRef"`
	Status struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
}

// Writes reports whether the request could change something.
func (r *Request) Writes() bool {
	switch r.Verb {
	case "create", "update", "patch", "delete", "deletecollection":
		return true
	}
	return false
}

func (r Request) String() string {
	return fmt.Sprintf("%s %s %s: %d", r.User.Name, r.Verb, r.URI, r.Status.Code)
}

// An Audit reads the audit log from a position on.
type Audit struct {
	file  string
	start int64 // offset in the file; earlier requests are before it
	since time.Time
}

// Audit returns a reader of the audit log from now on.
func (c *Cluster) Audit() (*Audit, error) {
	info, err := os.Stat(c.path("audit"))
	if err != nil {
		return nil, err
	}
	return &Audit{file: c.path("audit"), start: info.Size(), since: time.Now().Truncate(time.Microsecond)}, nil
}

// Requests returns the matching requests since the start of the Audit. The server logs a request before it completes
// the response, so every completed request is included. However, other clients can see the effect of a write before the
// write is logged.
func (a *Audit) Requests(match func(*Request) bool) ([]Request, error) {
	file, err := os.Open(a.file)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if _, err := file.Seek(a.start, io.SeekStart); err != nil {
		return nil, err
	}
	var found []Request
	lines := bufio.NewReader(file)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return found, nil // the rest of the file may be an incomplete line
		}
		if err != nil {
			return nil, err
		}
		var r Request
		if err := json.Unmarshal(line, &r); err != nil {
			return nil, fmt.Errorf("audit log: %w", err)
		}
		if !r.Time.Before(a.since) && match(&r) {
			found = append(found, r)
		}
	}
}
