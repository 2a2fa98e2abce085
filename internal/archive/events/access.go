package events

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/gpuledger/gpuledger/internal/cli"
	"github.com/gpuledger/gpuledger/internal/labelvalue"
)

// logEvery is the minimum time between two log lines about the same cause.
const logEvery = time.Hour

// maxLogged is the maximum length of a cluster's name in the log, in bytes.
const maxLogged = 100

// grant is a line of the token file: a sender with this token may send events of the cluster. All digests have the same
// length, so the time of a comparison does not depend on the token.
type grant struct {
	cluster string
	digest  [sha256.Size]byte
}

// parseTokens reads lines with the name of a cluster and a token, with spaces between them. It ignores empty lines and
// lines that begin with #. Errors contain no text from the file.
func parseTokens(text []byte) (grants []grant, err error) {
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		at := strings.LastIndexAny(line, " \t")
		if at < 0 {
			return nil, fmt.Errorf("line %d must be a cluster and its token, separated by a space", number)
		}
		grants = append(grants, grant{strings.TrimSpace(line[:at]), sha256.Sum256([]byte(line[at+1:]))})
	}
	return grants, nil
}

type access struct {
	file string // token file; if empty, all requests are accepted
	log  *slog.Logger

	mu     sync.Mutex
	text   []byte // content of the file when it was last read
	grants []grant
	logged map[cause]time.Time
}

// cause identifies refusals with the same outcome and cluster. They are logged at most once per hour. If the token file
// does not contain the cluster, cluster is empty. This limits the number of causes.
type cause struct{ outcome, cluster string }

func newAccess(file string, log *slog.Logger) *access {
	return &access{file: file, log: log, logged: make(map[cause]time.Time)}
}

// check reads the token file for each request, so that a change of the file takes effect immediately.
func (a *access) check(req *http.Request, cluster string) error {
	if a.file == "" {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.read(); err != nil {
		if a.due(cause{outcomeFailed, ""}) {
			a.log.Error("cannot read the tokens of event senders", "err", err)
		}
		return err
	}
	token, ok := strings.CutPrefix(req.Header.Get("Authorization"), "Bearer ")
	if !ok {
		token = "" // the file contains no empty token
	}
	switch known, granted := a.match(token, cluster); {
	case !known:
		a.note(outcomeUnauthorized, cluster, req)
		return refuse(http.StatusUnauthorized, "the bearer token is missing or wrong")
	case !granted:
		a.note(outcomeForbidden, cluster, req)
		return refuse(http.StatusForbidden, "the bearer token belongs to another cluster")
	}
	return nil
}

func (a *access) read() error {
	text, err := cli.ReadSecret(a.file)
	if err != nil {
		return err
	}
	if a.text != nil && bytes.Equal(text, a.text) {
		return nil
	}
	grants, err := parseTokens(text)
	if err != nil {
		return fmt.Errorf("%s: %w", a.file, err)
	}
	a.text, a.grants = text, grants
	return nil
}

// match reports whether the file contains the token, and whether the token is for the cluster. It always compares all
// tokens. Otherwise the time would reveal which token matches.
func (a *access) match(token, cluster string) (known, granted bool) {
	digest := sha256.Sum256([]byte(token))
	var ofAny, ofCluster int
	for i := range a.grants {
		same := subtle.ConstantTimeCompare(a.grants[i].digest[:], digest[:])
		ofAny |= same
		if a.grants[i].cluster == cluster {
			ofCluster |= same
		}
	}
	return ofAny == 1, ofCluster == 1
}

func (a *access) note(outcome, cluster string, req *http.Request) {
	c := cause{outcome: outcome}
	for i := range a.grants {
		if a.grants[i].cluster == cluster {
			c.cluster = cluster
		}
	}
	if a.due(c) {
		a.log.Warn("refusing events of a sender", "reason", outcome, "cluster", labelvalue.Printable(cluster[:min(len(cluster), maxLogged)]), "client", req.RemoteAddr)
	}
}

func (a *access) due(c cause) bool {
	now := time.Now()
	if last, ok := a.logged[c]; ok && now.Sub(last) < logEvery {
		return false
	}
	a.logged[c] = now
	return true
}

func outcomeOf(status int) string {
	switch status {
	case http.StatusUnauthorized:
		return outcomeUnauthorized
	case http.StatusForbidden:
		return outcomeForbidden
	}
	return outcomeRefused
}
