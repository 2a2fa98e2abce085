package web_test

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"errors"
	"fmt"
	"html"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/books/bookstest"
	"github.com/gpuledger/gpuledger/internal/archive/table"
	"github.com/gpuledger/gpuledger/internal/archive/web"
	"github.com/gpuledger/gpuledger/test/draws"
)

const scopes = `
header: X-Forwarded-Groups
proxy:
  addresses: [10.0.0.0/8]
readers:
  finance: {all: true}
  alice: {teams: [team-a]}
  bob: {namespaces: [ns-b]}
  carol: {clusters: [east]}
  dave: {teams: [team-a], clusters: [east]}
`

func scoped(t *testing.T, text string) web.Config {
	t.Helper()
	path := filepath.Join(t.TempDir(), "readers.yaml")
	check(t, os.WriteFile(path, []byte(text), 0o600))
	return web.Config{Pages: true, Settings: settings(t), Readers: path}
}

// The request comes from the proxy, for a member of a group.
func as(t *testing.T, h http.Handler, group, page string) response {
	t.Helper()
	return send(t, h, page, func(r *http.Request) {
		r.RemoteAddr = "10.1.2.3:4567"
		r.Header.Set("X-Forwarded-Groups", group)
	})
}

// owner returns a pod of a team. Every name contains the mark of the team, which a test can search for on a page.
func owner(team string) table.Charge {
	mark := "zq" + team
	return table.Charge{
		Namespace: "ns-" + team, Pod: mark + "-pod", PodUID: mark + "-uid", Team: "team-" + team, WorkloadKind: mark + "Kind", WorkloadName: mark + "-job", WorkloadUID: mark + "-wuid",
		Queue: mark + "-queue", ClusterQueue: mark + "-cq", Labels: "cost_center=" + mark + "-center",
	}
}

func unitOf(team string) table.Charge {
	mark := "zq" + team
	return table.Charge{Manager: mark + "-manager", Unit: mark + "-4711", Username: mark + "-user", Team: "team-" + team}
}

// drawn writes random hours of two clusters. Teams a and b share boards. No reader may see teams c and d.
func drawn(t *testing.T, random *rand.Rand) (path string) {
	t.Helper()
	var all []*table.Hour
	for n := range 24 {
		for _, cluster := range []string{"east", "west"} {
			h := &table.Hour{Cluster: cluster, Start: october.Add(time.Duration(n) * time.Hour)}
			for board := range 3 {
				node, uuid, serial := fmt.Sprintf("%s-n%d", cluster, board), fmt.Sprintf("GPU-%s-%d", cluster, board), fmt.Sprintf("16539%s%d", map[string]string{"east": "1", "west": "2"}[cluster], board)
				g := table.GPU{Node: node, UUID: uuid, Serial: serial, ChassisSerial: "C" + node, PCIBusID: "0000:01", Model: "H100", First: h.Start.Add(time.Minute), Last: h.Start.Add(59 * time.Minute), Scrapes: 59}
				charges := []table.Charge{{Reason: "idle", Energy: 100}}
				for _, team := range []string{"a", "b", "c", "d"} {
					switch random.IntN(3) {
					case 0:
						charges = append(charges, owner(team))
					case 1:
						charges = append(charges, unitOf(team))
					}
				}
				for _, c := range charges {
					c.Node, c.UUID, c.Serial = node, uuid, serial
					c.Energy = 1_000_000 * (1 + random.Int64N(3600))
					c.Idle, c.GPUTime, c.Held = c.Energy/4, 1_800_000, 1_800_000
					g.Energy += c.Energy
					h.Charges = append(h.Charges, c)
				}
				h.GPUs = append(h.GPUs, g)
			}
			all = append(all, h)
		}
	}
	return bookstest.File(t, "sqlite", all...)
}

var guesses = []string{
	"", "2026-10", "2026-10-01", "2026-10-01T05", "30d", "true", "team", "namespace", "workload", "pod", "unit", "user", "queue", "cluster_queue", "label:cost-center", "node", "serial", "cluster", "model", "reason",
	"team,namespace,pod", "pod,unit,user,queue,cluster_queue,label:cost-center,workload,node,serial", "reason,team", "east", "west", "focus", "focus-1.2", "impact-framework", "csv", "json", "markdown", "html", "text", "Europe/Berlin",
	"165391", "1653910", "GPU-east-1", "east-n1", "CEeast-n0", "' or 1=1 --", "%", "*", "ns-", "..", "/etc/passwd",
}

// foreign returns names of other teams that a reader may try to request.
func foreign(teams ...string) (names []string) {
	for _, team := range teams {
		o, u := owner(team), unitOf(team)
		names = append(names, o.Namespace+"/"+o.Pod, o.WorkloadName, o.WorkloadKind+"/"+o.WorkloadName, o.Namespace+"/"+o.WorkloadKind+"/"+o.WorkloadName, u.Manager+"/"+u.Unit, o.Team, o.Namespace, o.Pod)
	}
	return names
}

var (
	pagePaths  = []string{"/", "/search", "/statement", "/idle", "/fleet", "/moves", "/missing", "/verify", "/hours", "/ran", "/board", "/where", "/history", "/suspect", "/report"}
	parameters = []string{"age", "at", "by", "compare", "failures", "format", "from", "month", "of-cluster", "pod", "since", "to", "tz", "unit", "workload", "o", "q", "books", "config", "names", "prove", "team.label", "store.url", "assets"}
)

// valid contains parameters for the pages that teams and namespaces may see.
var valid = map[string][]string{
	"by": guesses[6:22], "compare": {"true", "false"}, "of-cluster": {"east", "west"}, "tz": {"Europe/Berlin", "UTC"}, "o": {"csv", "json", "text", "markdown"},
	"from": {"2026-10-01", "2026-10-01T05"}, "since": {"40d"}, "month": {"2026-10"},
}

// request returns the URL of a random page with random parameters. Half of the URLs are valid.
func request(random *rand.Rand, names []string) string {
	pick := func(of []string) string { return of[random.IntN(len(of))] }
	values := make(url.Values)
	if random.IntN(2) == 0 {
		path := pick([]string{"/statement", "/idle", "/ran"})
		if path == "/ran" {
			values.Set(pick([]string{"pod", "workload", "unit"}), pick(append([]string{"ns-a/zqa-pod", "zqa-job", "zqa-manager/zqa-4711", "zqb-job", "ns-b/zqb-pod"}, names...)))
			values.Set("since", "40d")
			return path + "?" + values.Encode()
		}
		values.Set(pick([]string{"month", "from", "since"}), "")
		for name := range values {
			values.Set(name, pick(valid[name]))
		}
		for range random.IntN(4) {
			name := pick([]string{"by", "compare", "of-cluster", "tz", "o"})
			if name != "compare" || path == "/statement" {
				values.Set(name, pick(valid[name]))
			}
		}
		return path + "?" + values.Encode()
	}
	path := pick(pagePaths)
	if random.IntN(2) == 0 {
		path += "/" + url.PathEscape(pick(append(slices.Clone(guesses), names...)))
	} else if random.IntN(2) == 0 {
		path += "/2026-10"
	}
	for range random.IntN(4) {
		values.Add(pick(parameters), pick(append(slices.Clone(guesses), names...)))
	}
	return path + "?" + values.Encode()
}

// marksOf returns strings that occur only in the names of the given teams.
func marksOf(teams []string) (marks []string) {
	for _, team := range teams {
		marks = append(marks, "zq"+team, "ns-"+team, "team-"+team)
	}
	return marks
}

// TestOthersHidden requests random pages with random parameters. No response may contain a team, namespace, pod,
// workload, unit, user or queue that the reader may not see. No response may contain a board or node of another
// cluster. If the request contains such a name, the response may repeat it, but must otherwise be the same as for an
// unknown name.
func TestOthersHidden(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	h := pages(t, scoped(t, scopes), drawn(t, random))
	others := map[string][]string{"alice": {"b", "c", "d"}, "bob": {"a", "c", "d"}, "dave": {"b", "c", "d"}}
	hidden := map[string][]string{"carol": {"west", "165392"}} // the other cluster and its boards
	for group, teams := range others {
		hidden[group] = marksOf(teams)
	}
	answered, refused := 0, 0
	requests := draws.Of(800, 5000)
	if testing.Short() {
		requests = 300
	}
	for range requests {
		group := []string{"alice", "bob", "carol", "dave"}[random.IntN(4)]
		names := foreign(others[group]...)
		page := request(random, names)
		w := as(t, h, group, page)
		if w.Code == http.StatusOK {
			answered++
		} else {
			refused++
		}
		body := w.Body.String() + fmt.Sprint(w.Header())
		asked, _ := url.QueryUnescape(strings.ReplaceAll(page, "/", "%2F"))
		for _, mark := range hidden[group] {
			if !strings.Contains(body, mark) {
				continue
			}
			if !strings.Contains(asked, mark) {
				t.Fatalf("%s reads %s: the response contains %q\n%s", group, page, mark, body)
			}
			sameAsUnknown(t, h, group, page, mark, body)
		}
	}
	if answered < requests/15 || refused < requests/15 {
		t.Errorf("%d answers and %d refusals: the parameters test too little", answered, refused)
	}
}

func sameAsUnknown(t *testing.T, h http.Handler, group, page, mark, body string) {
	t.Helper()
	none := strings.NewReplacer("zq", "zy", "ns-", "nx-", "team-", "tean-").Replace(mark)
	w := as(t, h, group, strings.ReplaceAll(page, mark, none))
	other := w.Body.String() + fmt.Sprint(w.Header())
	unmarked := func(text string) string {
		return strings.NewReplacer(mark, "MARK", none, "MARK").Replace(html.UnescapeString(text))
	}
	if unmarked(body) != unmarked(other) {
		t.Fatalf("%s reads %s: the response for %q differs from the response for an unknown name:\n%s\n\n%s", group, page, mark, body, other)
	}
}

// TestOwnLines checks that readers see the lines of their own teams, one sum of all other lines, and the totals.
func TestOwnLines(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	h := pages(t, scoped(t, scopes), drawn(t, random))
	rows := func(group, page string) map[string]string {
		all := make(map[string]string)
		w := as(t, h, group, page)
		w.has(http.StatusOK)
		for line := range strings.Lines(w.Body.String()) {
			cells := strings.Split(strings.TrimSpace(line), ",")
			all[cells[0]+" "+cells[1]] = cells[2]
		}
		return all
	}
	const page = "/statement/2026-10?o=csv&by=team"
	everything, own := rows("finance", page), rows("alice", page)
	if own["group team-a"] == "" || own["group team-a"] != everything["group team-a"] || own["total TOTAL"] != everything["total TOTAL"] || own["unattributed (unattributed)"] != everything["unattributed (unattributed)"] {
		t.Errorf("alice sees %v of %v", own, everything)
	}
	if len(own) != 5 || own["others (others)"] == "" { // header, team, unattributed, others, total
		t.Errorf("alice sees the lines %v", own)
	}
	if east := rows("carol", page); east["total TOTAL"] == everything["total TOTAL"] || east["group team-b"] == "" || east["others (others)"] != "" {
		t.Errorf("carol sees %v", east)
	}
	if east := rows("dave", page); east["total TOTAL"] == everything["total TOTAL"] || east["group team-a"] == own["group team-a"] {
		t.Errorf("dave sees %v", east)
	}
	if both := rows("alice,bob", "/statement/2026-10?o=csv&by=namespace"); both["group ns-a"] == "" || both["group ns-b"] == "" {
		t.Errorf("a reader of two groups sees %v", both)
	}
	as(t, h, "carol", "/where/west-n1").has(http.StatusNotFound)
	as(t, h, "carol", "/statement/2026-10?of-cluster=west").has(http.StatusForbidden)
}

// TestAssetsHidden checks that a reader of one cluster cannot find assets of another cluster by tag or by serial
// number.
func TestAssetsHidden(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	c := scoped(t, scopes)
	assets := filepath.Join(t.TempDir(), "assets.csv")
	check(t, os.WriteFile(assets, []byte("serial,tag,warranty\n1653911,TAG-EAST,2031-01-02\n1653921,TAG-WEST,2032-03-04\n"), 0o600))
	file, err := os.OpenFile(c.Settings, os.O_APPEND|os.O_WRONLY, 0)
	check(t, err)
	_, err = file.WriteString("assets: " + assets + "\n")
	check(t, errors.Join(err, file.Close()))
	h := pages(t, c, drawn(t, random))
	for _, path := range []string{"/where/%s", "/history/%s", "/suspect/%s", "/board/%s", "/errors/%s", "/search?q=%s", "/search?q=%s+1653910", "/search?q=%s+1653910&o=csv", "/ran?q=%s"} {
		for _, name := range []string{"TAG-WEST", "1653921"} {
			page := fmt.Sprintf(path, name)
			body := as(t, h, "carol", page).Body.String()
			for _, hidden := range []string{"TAG-WEST", "1653921", "2032-03-04"} {
				if hidden != name && strings.Contains(body, hidden) {
					t.Errorf("carol reads %s: the response contains %s", page, hidden)
				}
			}
		}
	}
	as(t, h, "carol", "/search?q=TAG-EAST+1653910&o=csv").has(http.StatusOK, "1653911", "2031-01-02")
	as(t, h, "finance", "/search?q=TAG-WEST+UNKNOWN&o=csv").has(http.StatusOK, "1653921", "2032-03-04")
}

// TestFailuresHidden checks that a reader of a team sees no failures. A reader of a cluster must see only the failures
// in this cluster.
func TestFailuresHidden(t *testing.T) {
	var all []*table.Hour
	for n := range 3 {
		for i, cluster := range []string{"east", "west"} {
			h := &table.Hour{Cluster: cluster, Start: october.Add(time.Duration(n) * time.Hour)}
			for board := range 2 + i {
				g := table.GPU{Node: cluster + "-n", UUID: fmt.Sprint("GPU-", cluster, board), ChassisSlot: fmt.Sprint(cluster, "-slot"), PCIBusID: fmt.Sprint(board), Model: "model-" + cluster, Scrapes: 59}
				g.First, g.Last, g.RecoveryAction = h.Start.Add(time.Minute), h.Start.Add(59*time.Minute), "reset"
				h.GPUs = append(h.GPUs, g)
			}
			all = append(all, h)
		}
	}
	h := pages(t, scoped(t, scopes), bookstest.File(t, "sqlite", all...))
	for _, page := range []string{"/fleet", "/fleet/2026-10", "/fleet?failures=true", "/fleet/2026-10?failures=true&o=csv", "/fleet/2026-10?failures=true&of-cluster=east&o=json"} {
		for _, group := range []string{"alice", "bob", "dave", "mallory"} {
			w := as(t, h, group, page)
			w.has(http.StatusForbidden)
			w.lacks("model-")
		}
	}
	for group, want := range map[string]string{"carol": "2,2,1,0,0,2,0", "finance": "5,5,1,0,0,5,0"} {
		body := as(t, h, group, "/fleet/2026-10?failures=true&o=csv").Body.String()
		if !strings.HasSuffix(body, "total,TOTAL,,,"+want+"\n") || strings.Contains(body, "west") != (group == "finance") {
			t.Errorf("%s reads, want %s:\n%s", group, want, body)
		}
		if page := as(t, h, group, "/fleet/2026-10").Body.String(); !strings.Contains(page, "Boards that failed") || !strings.Contains(page, "east-slot") || strings.Contains(page, "west-slot") != (group == "finance") {
			t.Errorf("%s reads the page:\n%s", group, page)
		}
	}
}

// TestIdentity checks how the server identifies the reader of a request. It must ignore the header unless a trusted
// proxy sent the request and the request contains the header exactly once.
func TestIdentity(t *testing.T) {
	h := pages(t, scoped(t, scopes), archive(t, nil))
	basic := "Basic " + base64.StdEncoding.EncodeToString([]byte("alice:secret"))
	for name, tt := range map[string]struct {
		address string
		header  http.Header
		status  int
	}{
		"proxy":                  {"10.1.2.3:1", http.Header{"X-Forwarded-Groups": {"finance"}}, http.StatusOK},
		"mapped address":         {"[::ffff:10.1.2.3]:1", http.Header{"X-Forwarded-Groups": {"finance"}}, http.StatusOK},
		"unknown group":          {"10.1.2.3:1", http.Header{"X-Forwarded-Groups": {"guests"}}, http.StatusForbidden},
		"two headers":            {"10.1.2.3:1", http.Header{"X-Forwarded-Groups": {"finance", "alice"}}, http.StatusForbidden},
		"no header":              {"10.1.2.3:1", nil, http.StatusForbidden},
		"other address":          {"192.0.2.1:1", http.Header{"X-Forwarded-Groups": {"finance"}}, http.StatusForbidden},
		"user":                   {"192.0.2.1:1", http.Header{"Authorization": {basic}}, http.StatusForbidden}, // alice may see statements, but no boards
		"user with false header": {"192.0.2.1:1", http.Header{"Authorization": {basic}, "X-Forwarded-Groups": {"finance"}}, http.StatusForbidden},
		"user that is unchecked": {"192.0.2.1:1", http.Header{"Authorization": {"Basic " + base64.StdEncoding.EncodeToString([]byte("finance:x"))}}, http.StatusForbidden},
	} {
		w := send(t, h, "/board/1653924023101", func(r *http.Request) { r.RemoteAddr, r.Header = tt.address, tt.header })
		if w.Code != tt.status {
			t.Errorf("%s: status %d, want %d", name, w.Code, tt.status)
		}
	}
	w := send(t, h, "/statement/2026-10", func(r *http.Request) { r.Header.Set("Authorization", basic) })
	w.has(http.StatusOK, "(others)")
	w.lacks("vision")
}

// TestCertificate checks that the header counts only if the client has a verified certificate with the proxy's name.
func TestCertificate(t *testing.T) {
	text := "header: X-User\nproxy: {certificates: [proxy.example.com]}\nreaders: {finance: {all: true}}\n"
	h := pages(t, scoped(t, text), archive(t, nil))
	proxy, other := &x509.Certificate{DNSNames: []string{"proxy.example.com"}}, &x509.Certificate{Subject: pkix.Name{CommonName: "prometheus"}}
	for name, tt := range map[string]struct {
		state  *tls.ConnectionState
		status int
	}{
		"proxy":       {&tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{proxy, other}}}, http.StatusOK},
		"other":       {&tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{other, proxy}}}, http.StatusForbidden},
		"unverified":  {&tls.ConnectionState{PeerCertificates: []*x509.Certificate{proxy}}, http.StatusForbidden},
		"without TLS": {nil, http.StatusForbidden},
	} {
		w := send(t, h, "/board/1653924023101", func(r *http.Request) {
			r.Header.Set("X-User", "finance")
			r.TLS = tt.state
		})
		if w.Code != tt.status {
			t.Errorf("%s: status %d, want %d", name, w.Code, tt.status)
		}
	}
}

// TestAddresses checks that pages require credentials if other machines can reach the address.
func TestAddresses(t *testing.T) {
	for _, tt := range []struct {
		config      web.Config
		address     string
		credentials bool
		valid       bool
	}{
		{web.Config{Pages: true}, "127.0.0.1:9841", false, true},
		{web.Config{Pages: true}, ":9841", false, false},
		{web.Config{Pages: true}, ":9841", true, true},
		{web.Config{Pages: true, Insecure: true}, ":9841", false, true},
		{scoped(t, scopes), ":9841", false, true},
		{web.Config{LogReads: true}, ":9841", true, false},
		{web.Config{}, ":9841", false, true},
	} {
		if err := tt.config.Validate([]string{tt.address}, tt.credentials); (err == nil) != tt.valid {
			t.Errorf("%+v on %s, credentials %v: %v", tt.config, tt.address, tt.credentials, err)
		}
	}
}

// TestInvalidReaders checks that invalid files are rejected, and also files that grant more than they seem to grant.
func TestInvalidReaders(t *testing.T) {
	for _, text := range []string{
		"", "readers: {}", "readers: {alice: {}}", "readers: {alice: {all: true, teams: [a]}}", "readers: {alice: {teams: ['']}}", "readers: {'': {all: true}}", "readers: {'a,b': {all: true}}",
		"header: X-User\nreaders: {alice: {all: true}}", "proxy: {addresses: [10.0.0.0/8]}\nreaders: {alice: {all: true}}", "readers: {alice: {team: [a]}}",
		"header: Authorization\nproxy: {addresses: [10.0.0.0/8]}\nreaders: {alice: {all: true}}", "header: X-User\nproxy: {addresses: [ten]}\nreaders: {alice: {all: true}}",
	} {
		c := scoped(t, text)
		if err := c.Validate([]string{"127.0.0.1:1"}, true); err == nil {
			t.Errorf("%q is valid", text)
		}
	}
}

// TestBrokenSettings checks that a limited reader does not see the content of invalid settings in an error. The status
// must be a server error.
func TestBrokenSettings(t *testing.T) {
	for _, text := range []string{"prices: /secret/prices.csv\n", "secret: name\n", "carbon: " + filepath.Join(t.TempDir(), "secret") + "\n"} {
		c := scoped(t, scopes)
		h := pages(t, c, archive(t, nil))
		check(t, os.WriteFile(c.Settings, []byte(text), 0o600))
		w := as(t, h, "alice", "/statement/2026-10")
		w.has(http.StatusInternalServerError)
		w.lacks("secret", c.Settings)
		as(t, h, "finance", "/statement/2026-10").has(http.StatusInternalServerError, "secret")
	}
}
