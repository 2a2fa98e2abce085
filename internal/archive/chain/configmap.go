package chain

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/config"

	"github.com/gpuledger/gpuledger/internal/archive/address"
)

const (
	// account is the folder with the token and the CA of a pod's service account.
	account        = "/var/run/secrets/kubernetes.io/serviceaccount"
	checkpointsKey = "checkpoints.jsonl"
	// maxKept is the maximum number of checkpoints in a ConfigMap. The API server limits its size to 1 MiB.
	maxKept = 1000
	// Checkpoints younger than recent are all kept. Of each earlier day, only the last checkpoint is kept.
	recent = 48 * time.Hour
	// If another writer changes the ConfigMap at the same time, the update is repeated after a random delay. The
	// maximum delay is first minConflict, and doubles up to maxConflict. After conflictsEnd, a conflict causes an
	// error.
	conflictsEnd = time.Minute
	minConflict  = 20 * time.Millisecond
	maxConflict  = 2 * time.Second
	// maxObject is the maximum size of a response from the API server, in bytes.
	maxObject = 8 << 20
)

var errConflict = errors.New("another writer updated the ConfigMap")

type configMap struct {
	namespace, name string
	server          *url.URL               // nil means the API server of the pod
	account         string                 // folder with the files token and ca.crt
	dial            config.DialContextFunc // nil means the network
}

// parseConfigMap parses configmap:NAMESPACE/NAME. Outside the cluster, the parameter server is the URL of an API
// server, and account is a folder with the files token and ca.crt.
func parseConfigMap(at *url.URL) (*configMap, error) {
	const must = "must be configmap:NAMESPACE/NAME, or configmap:NAMESPACE/NAME?server=https://…&account=FOLDER outside the cluster"
	values := at.Query()
	m := &configMap{account: cmp.Or(values.Get("account"), account)}
	var found bool
	m.namespace, m.name, found = strings.Cut(at.Opaque, "/")
	if !found || m.namespace == "" || m.name == "" || strings.Contains(m.name, "/") {
		return nil, errors.New(must)
	}
	for name := range values {
		if name != "server" && name != "account" {
			return nil, errors.New(must)
		}
	}
	if text := values.Get("server"); text != "" {
		server, err := address.Parse(text)
		if err != nil || server.Scheme != "https" || server.Host == "" || server.User != nil {
			return nil, errors.New(must)
		}
		m.server = server
	}
	return m, nil
}

// Other archives may add checkpoints at the same time.
func (m *configMap) publish(ctx context.Context, c Checkpoint) error {
	client, err := m.client()
	if err != nil {
		return err
	}
	end, delay := time.After(conflictsEnd), minConflict
	for {
		err := m.update(ctx, client, c)
		if !errors.Is(err, errConflict) {
			return err
		}
		select {
		case <-time.After(rand.N(delay)): //nolint:gosec // spreads the attempts of several archives
			delay = min(2*delay, maxConflict)
		case <-end:
			return err
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		}
	}
}

// If another writer has updated the ConfigMap since it was read, update returns errConflict.
func (m *configMap) update(ctx context.Context, client *http.Client, c Checkpoint) error {
	object, data, err := m.read(ctx, client)
	if err != nil {
		return err
	}
	all, err := parseCheckpoints([]byte(data[checkpointsKey]))
	if err != nil {
		return fmt.Errorf("%s: key %s: %w", m, checkpointsKey, err)
	}
	if slices.Contains(all, c) {
		return nil
	}
	var text []byte
	for _, c := range bounded(append(all, c)) {
		line, err := c.line()
		if err != nil {
			return err
		}
		text = append(text, line...)
	}
	data[checkpointsKey] = string(text)
	if object["data"], err = json.Marshal(data); err != nil {
		return err
	}
	body, err := json.Marshal(object)
	if err != nil {
		return err
	}
	_, err = m.request(ctx, client, http.MethodPut, body)
	return err
}

// bounded returns the checkpoints to keep. It keeps all checkpoints of the last two days, and the last checkpoint of
// each chain on each earlier day. If there are too many, it removes the oldest checkpoints, but never the last
// checkpoint of a chain.
func bounded(all []Checkpoint) (kept []Checkpoint) {
	type chain struct{ sink, cluster string }
	type day struct {
		chain
		time.Time
	}
	newest, last := make(map[chain]Checkpoint), make(map[day]int64)
	dayOf := func(c Checkpoint) day { return day{chain{c.Sink, c.Cluster}, c.Time.UTC().Truncate(24 * time.Hour)} }
	for _, c := range all {
		of := dayOf(c)
		if c.Sequence >= newest[of.chain].Sequence {
			newest[of.chain] = c
		}
		last[of] = max(last[of], c.Sequence)
	}
	for _, c := range all {
		of := dayOf(c)
		if newest[of.chain].Time.Sub(c.Time) < recent || c.Sequence == last[of] {
			kept = append(kept, c)
		}
	}
	surplus := len(kept) - maxKept
	return slices.DeleteFunc(kept, func(c Checkpoint) bool {
		surplus--
		return surplus >= 0 && c != newest[chain{c.Sink, c.Cluster}]
	})
}

func (m *configMap) published(ctx context.Context) ([]Checkpoint, error) {
	client, err := m.client()
	if err != nil {
		return nil, err
	}
	_, data, err := m.read(ctx, client)
	if err != nil {
		return nil, err
	}
	return parseCheckpoints([]byte(data[checkpointsKey]))
}

// The object also contains fields that this program does not use. An update must keep them.
func (m *configMap) read(ctx context.Context, client *http.Client) (object map[string]json.RawMessage, data map[string]string, err error) {
	text, err := m.request(ctx, client, http.MethodGet, nil)
	if err != nil {
		return nil, nil, err
	}
	data = make(map[string]string)
	if err = json.Unmarshal(text, &object); err == nil && object["data"] != nil {
		err = json.Unmarshal(object["data"], &data)
	}
	if err != nil {
		err = fmt.Errorf("%s: the API server returned no ConfigMap: %w", m, err)
	}
	return object, data, err
}

func (m *configMap) String() string { return "configmap " + m.namespace + "/" + m.name }

// The client verifies the API server with the CA of the service account. It uses no proxy and follows no redirects.
func (m *configMap) client() (*http.Client, error) {
	path := filepath.Join(m.account, "ca.crt")
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%s: the pod needs a token of its service account: %w", m, err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s: %s contains no certificate in PEM", m, path)
	}
	return &http.Client{
		Timeout:       timeout,
		Transport:     &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, DisableKeepAlives: true, DialContext: m.dial},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

func (m *configMap) url() (string, error) {
	at := m.server
	if at == nil {
		host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")
		if host == "" || port == "" {
			return "", fmt.Errorf("%s: the program is not in a pod: set the parameters server and account", m)
		}
		at = &url.URL{Scheme: "https", Host: net.JoinHostPort(host, port)}
	}
	return at.JoinPath("api/v1/namespaces", m.namespace, "configmaps", m.name).String(), nil
}

// request reads the token each time, because Kubernetes renews the token.
func (m *configMap) request(ctx context.Context, client *http.Client, method string, body []byte) ([]byte, error) {
	to, err := m.url()
	if err != nil {
		return nil, err
	}
	token, err := os.ReadFile(filepath.Join(m.account, "token"))
	if err != nil {
		return nil, fmt.Errorf("%s: the pod needs a token of its service account: %w", m, err)
	}
	r, err := http.NewRequestWithContext(ctx, method, to, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m, err)
	}
	r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	r.Header.Set("Accept", "application/json")
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	response, err := client.Do(r)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m, err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxObject))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m, err)
	}
	return text, m.check(response)
}

func (m *configMap) check(response *http.Response) error {
	switch response.StatusCode {
	case http.StatusOK:
		return nil
	case http.StatusConflict:
		return fmt.Errorf("%s: %w", m, errConflict)
	case http.StatusNotFound:
		return fmt.Errorf("%s does not exist: create it with kubectl create configmap %s --namespace %s", m, m.name, m.namespace)
	case http.StatusUnauthorized, http.StatusForbidden:
		return fmt.Errorf("%s: status %s: the account needs the verbs get and update on this ConfigMap", m, response.Status)
	}
	return fmt.Errorf("%s: status %s", m, response.Status)
}
