package store_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/store"
)

// Errors must not contain passwords or parameters from the URL of the store, even if the server's response contains
// them.
func TestSecrets(t *testing.T) {
	const first, second = "Pq7hunter", "Zx9tiger"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch token := r.URL.Query().Get("token"); r.URL.Path {
		case "/status/api/v1/query":
			http.Error(w, "cannot POST "+r.URL.String()+" with "+token, http.StatusBadRequest)
		case "/moved/api/v1/query":
			http.Redirect(w, r, "http://127.0.0.1:1/"+r.URL.String(), http.StatusFound)
		case "/nowhere/api/v1/query":
			w.Header().Set("Location", "http://127.0.0.1:port/?"+r.URL.RawQuery)
			w.WriteHeader(http.StatusFound)
		case "/login/api/v1/query":
			http.Redirect(w, r, "/page/"+url.PathEscape(token)+"?from="+url.QueryEscape(r.URL.String()), http.StatusFound)
		case "/format/api/v1/query":
			_, _ = w.Write([]byte(token))
		case "/error/api/v1/query":
			_, _ = w.Write([]byte(`{"status":"error","error":"no tenant ` + token + `"}`))
		case "/warns/api/v1/query":
			_, _ = w.Write([]byte(`{"status":"success","warnings":["no tenant ` + token + `"]}`))
		default:
			_, _ = w.Write([]byte("<html>sign in</html>"))
		}
	}))
	t.Cleanup(server.Close)
	host := strings.TrimPrefix(server.URL, "http://")
	for _, odd := range []string{"", " ", "%zz", "%", "/", "?", "#", "@", ":", "&", "é", "%20"} {
		secret := first + odd + second
		for _, form := range []string{"http://user:SECRET@" + host, "http://SECRET@" + host, "http://user:SECRET@" + host + ":port", "http://" + host + ":x/?token=SECRET"} {
			for _, text := range []string{strings.ReplaceAll(form, "SECRET", secret), strings.ReplaceAll(form, "SECRET", url.QueryEscape(secret))} {
				checkSecrets(t, text, first, second)
			}
		}
		for _, path := range []string{"status", "moved", "nowhere", "format", "error", "warns", "login"} {
			checkSecrets(t, "http://user:"+url.QueryEscape(secret)+"@"+host+"/"+path+"?token="+url.QueryEscape(secret), first, second)
			checkSecrets(t, "http://"+host+"/"+path+"?token="+secret, first, second)
		}
	}
	for _, text := range []string{"user:Pq7hunter@host:9090", "http:user:Pq7hunter@host", "ftp://user:Pq7hunter@host", "http://user:1/Pq7hunter@host"} {
		checkSecrets(t, text, first, second)
	}
}

func checkSecrets(t *testing.T, text string, secrets ...string) {
	t.Helper()
	s, err := store.New(store.Config{URL: text, Type: "prometheus", Timeout: time.Minute})
	texts := []string{}
	if err == nil {
		texts = append(texts, s.URL())
		if _, err = s.Clusters(t.Context(), time.Unix(3600, 0)); err == nil {
			return // the path does not exist, or there was no error
		}
		_, other := s.Series(t.Context(), "up", time.Unix(0, 0), time.Unix(1, 0))
		texts = append(texts, other.Error())
	}
	for _, got := range append(texts, err.Error()) {
		for _, secret := range secrets {
			if strings.Contains(got, secret) {
				t.Errorf("the text for %s contains the secret: %s", text, got)
			}
		}
	}
}
