//go:build e2e

package scale_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"time"

	coordination "k8s.io/api/coordination/v1"
	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
)

// server is a fake API server. Like a real API server, it serves the resources that the reconciler reads and writes in
// protobuf. It has no authorization, admission and storage. Only Nodes change. The server creates an object only when
// it sends the object, so it needs little memory.
type server struct {
	*httptest.Server
	cluster size

	mu      sync.Mutex
	changed *sync.Cond
	log     []int          // changed Nodes in order; the resource version of a change is its position
	applied []applied      // applied fields by Node
	patches []time.Time    // times of the patches of Nodes
	writes  map[string]int // number of other writes, by path; excludes patches of Nodes and renewals of the Lease
	lease   *coordination.Lease
}

type applied struct {
	version             int
	labels, annotations map[string]string
}

func newServer(cluster size) *server {
	s := &server{cluster: cluster, applied: make([]applied, cluster.nodes), writes: make(map[string]int)}
	s.changed = sync.NewCond(&s.mu)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api", discovery(&meta.APIVersions{TypeMeta: meta.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}}))
	mux.HandleFunc("GET /apis", discovery(groups("apps", "coordination.k8s.io")))
	mux.HandleFunc("GET /api/v1", discovery(resources("v1", "nodes Node", "pods Pod")))
	mux.HandleFunc("GET /apis/apps/v1", discovery(resources("apps/v1", "daemonsets DaemonSet", "replicasets ReplicaSet", "deployments Deployment")))
	mux.HandleFunc("GET /apis/coordination.k8s.io/v1", discovery(resources("coordination.k8s.io/v1", "leases Lease")))

	mux.HandleFunc("GET /api/v1/nodes", s.list(&core.NodeList{}, cluster.nodes, s.node))
	mux.HandleFunc("PATCH /api/v1/nodes/{name}", s.patchNode)
	mux.HandleFunc("GET /api/v1/pods", s.list(&core.PodList{}, cluster.nodes+cluster.pods, s.pod))
	mux.HandleFunc("GET /apis/apps/v1/namespaces/{namespace}/daemonsets", s.list(daemonSets(), 1, func(int) runtime.Object { return daemonSet() }))
	mux.HandleFunc("GET /apis/apps/v1/namespaces/{namespace}/{resource}/{name}", func(w http.ResponseWriter, r *http.Request) {
		send(w, http.StatusOK, owner(r.PathValue("resource"), r.PathValue("name")))
	})
	mux.HandleFunc("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases", s.serveLease)
	mux.HandleFunc("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{name}", s.serveLease)
	mux.HandleFunc("/", s.other)
	s.Server = httptest.NewUnstartedServer(mux)
	s.EnableHTTP2 = true
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // omits errors about connections that end with the test
	s.StartTLS()
	return s
}

func (s *server) other(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet {
		s.mu.Lock()
		s.writes[r.Method+" "+r.URL.Path]++
		s.mu.Unlock()
	}
	status := apierrors.NewNotFound(schema.GroupResource{}, r.URL.Path).Status()
	send(w, http.StatusNotFound, &status)
}

func discovery(list any) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", runtime.ContentTypeJSON)
		_ = json.NewEncoder(w).Encode(list) // the client may have closed the connection
	}
}

func groups(names ...string) *meta.APIGroupList {
	list := &meta.APIGroupList{TypeMeta: meta.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}}
	for _, name := range names {
		version := meta.GroupVersionForDiscovery{GroupVersion: name + "/v1", Version: "v1"}
		list.Groups = append(list.Groups, meta.APIGroup{Name: name, Versions: []meta.GroupVersionForDiscovery{version}, PreferredVersion: version})
	}
	return list
}

func resources(groupVersion string, kinds ...string) *meta.APIResourceList {
	list := &meta.APIResourceList{TypeMeta: meta.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: groupVersion}
	for _, k := range kinds {
		name, kind, _ := strings.Cut(k, " ")
		list.APIResources = append(list.APIResources, meta.APIResource{Name: name, Kind: kind, Namespaced: name != "nodes", Verbs: meta.Verbs{"get", "list", "watch"}})
	}
	return list
}

var (
	kinds = newKinds()
	codec = newCodec()
)

func newKinds() *runtime.Scheme {
	all := runtime.NewScheme()
	if err := errors.Join(scheme.AddToScheme(all), meta.AddMetaToScheme(all)); err != nil {
		panic(err)
	}
	return all
}

func newCodec() runtime.SerializerInfo {
	info, ok := runtime.SerializerInfoForMediaType(serializer.NewCodecFactory(kinds).SupportedMediaTypes(), runtime.ContentTypeProtobuf)
	if !ok {
		panic("protobuf is not supported")
	}
	return info
}

func encode(obj runtime.Object) []byte {
	if obj.GetObjectKind().GroupVersionKind().Empty() {
		of, _, err := kinds.ObjectKinds(obj)
		if err != nil {
			panic(err)
		}
		obj.GetObjectKind().SetGroupVersionKind(of[0])
	}
	raw, err := runtime.Encode(codec.Serializer, obj)
	if err != nil {
		panic(err)
	}
	return raw
}

func send(w http.ResponseWriter, status int, obj runtime.Object) {
	w.Header().Set("Content-Type", runtime.ContentTypeProtobuf)
	w.WriteHeader(status)
	_, _ = w.Write(encode(obj)) // the client may have closed the connection
}

// list returns a handler that lists or watches the given number of objects. Only Nodes change.
func (s *server) list(empty runtime.Object, number int, object func(i int) runtime.Object) http.HandlerFunc {
	_, changes := empty.(*core.NodeList)
	return func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		if query.Get("watch") == "" {
			http.Error(w, "this server supports only streamed lists", http.StatusNotImplemented)
			return
		}
		seconds, _ := strconv.Atoi(query.Get("timeoutSeconds"))
		ctx, cancel := context.WithTimeout(r.Context(), time.Duration(max(seconds, 1))*time.Second)
		defer cancel()
		defer context.AfterFunc(ctx, s.changed.Broadcast)()
		w.Header().Set("Content-Type", runtime.ContentTypeProtobuf+";stream=watch")
		events := newEvents(w)
		position, _ := strconv.Atoi(query.Get("resourceVersion"))
		if query.Get("sendInitialEvents") == "true" {
			s.mu.Lock()
			position = len(s.log)
			s.mu.Unlock()
			for i := range number {
				events.send(watch.Added, object(i))
			}
			events.send(watch.Bookmark, endOfList(object(0), position))
		}
		events.flush()
		for ctx.Err() == nil && changes {
			for _, i := range s.changesSince(ctx, &position) {
				events.send(watch.Modified, object(i))
			}
			events.flush()
		}
		<-ctx.Done()
	}
}

// endOfList returns the bookmark at the end of a streamed list (KEP-3157).
func endOfList(of runtime.Object, version int) runtime.Object {
	end := of.DeepCopyObject()
	switch end := end.(type) {
	case *core.Node:
		*end = core.Node{ObjectMeta: bookmark(version)}
	case *core.Pod:
		*end = core.Pod{ObjectMeta: bookmark(version)}
	default:
		end.(meta.ObjectMetaAccessor).GetObjectMeta().SetResourceVersion(strconv.Itoa(max(version, 1)))
		end.(meta.ObjectMetaAccessor).GetObjectMeta().SetAnnotations(bookmark(version).Annotations)
	}
	return end
}

func bookmark(version int) meta.ObjectMeta {
	return meta.ObjectMeta{ResourceVersion: strconv.Itoa(max(version, 1)), Annotations: map[string]string{meta.InitialEventsAnnotationKey: "true"}}
}

// changesSince waits until the list of changed Nodes is longer than position. It returns the changes from this position
// on, and advances the position. When the context ends, it returns no changes.
func (s *server) changesSince(ctx context.Context, position *int) []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	for *position >= len(s.log) && ctx.Err() == nil {
		s.changed.Wait()
	}
	changed := s.log[min(*position, len(s.log)):]
	*position = len(s.log)
	return changed
}

type events struct {
	w      http.ResponseWriter
	buffer *bufio.Writer
	frames io.Writer
}

func newEvents(w http.ResponseWriter) *events {
	e := &events{w: w, buffer: bufio.NewWriterSize(w, 64<<10)}
	e.frames = codec.StreamSerializer.NewFrameWriter(e.buffer)
	return e
}

// send ignores errors. After an error, the client has closed the connection, so the request ends.
func (e *events) send(kind watch.EventType, obj runtime.Object) {
	_ = codec.StreamSerializer.Encode(&meta.WatchEvent{Type: string(kind), Object: runtime.RawExtension{Raw: encode(obj)}}, e.frames)
}

func (e *events) flush() {
	_ = e.buffer.Flush()
	_ = http.NewResponseController(e.w).Flush()
}

// The caller of touch must hold the lock.
func (s *server) touch(i int) {
	s.log = append(s.log, i)
	s.applied[i].version = len(s.log)
	s.changed.Broadcast()
}

func (s *server) patchNode(w http.ResponseWriter, r *http.Request) {
	var patch struct{ Metadata meta.ObjectMeta }
	if err := json.NewDecoder(r.Body).Decode(&patch); err != nil {
		http.Error(w, err.Error(), http.StatusUnsupportedMediaType)
		return
	}
	i := numberOf(r.PathValue("name"))
	s.mu.Lock()
	s.applied[i].labels, s.applied[i].annotations = patch.Metadata.Labels, patch.Metadata.Annotations
	s.patches = append(s.patches, time.Now())
	s.touch(i)
	s.mu.Unlock()
	send(w, http.StatusOK, s.node(i))
}

// heartbeats changes each Node once per interval until the context ends, as kubelets do.
func (s *server) heartbeats(ctx context.Context, interval time.Duration) {
	ticker := time.NewTicker(interval / time.Duration(s.cluster.nodes))
	defer ticker.Stop()
	for i := 0; ; i = (i + 1) % s.cluster.nodes {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		s.mu.Lock()
		s.touch(i)
		s.mu.Unlock()
	}
}

// labelled returns the number of Nodes with labels and the total number of patches.
func (s *server) labelled() (nodes, patches int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.applied {
		if len(s.applied[i].labels) > 0 {
			nodes++
		}
	}
	return nodes, len(s.patches)
}

// most returns the highest number of patches per second, averaged over ten seconds.
func (s *server) most() float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	most, first := 0, 0
	for i, at := range s.patches {
		for at.Sub(s.patches[first]) > 10*time.Second {
			first++
		}
		most = max(most, i-first+1)
	}
	return float64(most) / 10
}

func (s *server) serveLease(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Method == http.MethodGet {
		if s.lease == nil {
			status := apierrors.NewNotFound(schema.GroupResource{Resource: "leases"}, "").Status()
			send(w, http.StatusNotFound, &status)
			return
		}
		send(w, http.StatusOK, s.lease)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client has closed the connection
	}
	lease := &coordination.Lease{}
	if _, _, err := codec.Serializer.Decode(body, nil, lease); err != nil {
		http.Error(w, fmt.Sprint(err), http.StatusBadRequest)
		return
	}
	version := 0
	if s.lease != nil {
		version, _ = strconv.Atoi(s.lease.ResourceVersion)
	}
	lease.ResourceVersion = strconv.Itoa(version + 1)
	s.lease = lease
	send(w, http.StatusOK, lease)
}

// others omits patches of Nodes and of the Lease.
func (s *server) others() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.writes)
}
