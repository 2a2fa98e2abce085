//go:build oauth

package web_test

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

var groupsOf = map[string][]string{
	"alice": {"users-a"}, "bob": {"users-b"}, "both": {"users-a", "users-b"}, "carol": {"staff", "finance"}, "comma": {"x,finance"}, "eve": {},
}

// issuer is a minimal OpenID Connect provider, with the authorization code flow of OpenID Connect Core 1.0, section
// 3.1. The cookie login contains the name of the user. As in Dex, tokens contain groups only if the client requests the
// scope groups.
type issuer struct {
	url, callback string
	key           *rsa.PrivateKey

	mu    sync.Mutex
	codes map[string]map[string]any // claims for each unused code
}

// newIssuer starts an issuer, and returns its URL. The redirect URL of its only client is callback.
func newIssuer(t *testing.T, callback string) string {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	check(t, err)
	i := &issuer{callback: callback, key: key, codes: make(map[string]map[string]any)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", i.discover)
	mux.HandleFunc("GET /keys", i.keys)
	mux.HandleFunc("GET /authorize", i.authorize)
	mux.HandleFunc("POST /token", i.token)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	i.url = server.URL
	return i.url
}

func respond(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(value)
}

func (i *issuer) discover(w http.ResponseWriter, _ *http.Request) {
	respond(w, map[string]any{
		"issuer": i.url, "authorization_endpoint": i.url + "/authorize", "token_endpoint": i.url + "/token", "jwks_uri": i.url + "/keys",
		"response_types_supported": []string{"code"}, "subject_types_supported": []string{"public"}, "id_token_signing_alg_values_supported": []string{"RS256"},
	})
}

func (i *issuer) keys(w http.ResponseWriter, _ *http.Request) {
	respond(w, map[string]any{"keys": []map[string]string{{
		"kty": "RSA", "alg": "RS256", "use": "sig", "kid": "1", "n": encode(i.key.N.Bytes()), "e": encode(big.NewInt(int64(i.key.E)).Bytes()),
	}}})
}

func (i *issuer) authorize(w http.ResponseWriter, r *http.Request) {
	query, login := r.URL.Query(), ""
	if cookie, err := r.Cookie("login"); err == nil {
		login = cookie.Value
	}
	groups, known := groupsOf[login]
	switch {
	case query.Get("client_id") != "gpuledger" || query.Get("response_type") != "code" || query.Get("redirect_uri") != i.callback:
		http.Error(w, "another client", http.StatusBadRequest)
		return
	case !known:
		http.Error(w, "log in", http.StatusUnauthorized)
		return
	}
	now := time.Now()
	claims := map[string]any{
		"iss": i.url, "aud": "gpuledger", "sub": "4711-" + login, "iat": now.Unix(), "exp": now.Add(time.Hour).Unix(), "nonce": query.Get("nonce"),
		"email": login + "@example.com", "email_verified": true, "preferred_username": login,
	}
	if slices.Contains(strings.Fields(query.Get("scope")), "groups") {
		claims["groups"] = groups
	}
	code := rand.Text()
	i.mu.Lock()
	i.codes[code] = claims
	i.mu.Unlock()
	http.Redirect(w, r, i.callback+"?"+url.Values{"code": {code}, "state": {query.Get("state")}}.Encode(), http.StatusFound)
}

// token exchanges a code for an identity token. A code can be used only once.
func (i *issuer) token(w http.ResponseWriter, r *http.Request) {
	id, secret, ok := r.BasicAuth()
	if unescaped, err := url.QueryUnescape(secret); err == nil { // RFC 6749, section 2.3.1
		secret = unescaped
	}
	i.mu.Lock()
	claims := i.codes[r.PostFormValue("code")]
	delete(i.codes, r.PostFormValue("code"))
	i.mu.Unlock()
	if !ok || id != "gpuledger" || secret != clientSecret || claims == nil || r.PostFormValue("redirect_uri") != i.callback {
		http.Error(w, `{"error":"invalid_grant"}`, http.StatusBadRequest)
		return
	}
	token, err := i.sign(claims)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	respond(w, map[string]any{"access_token": rand.Text(), "token_type": "Bearer", "expires_in": 3600, "id_token": token})
}

// sign returns a JSON Web Token in the compact form of RFC 7515, signed with RS256.
func (i *issuer) sign(claims map[string]any) (string, error) {
	payload, err := json.Marshal(claims)
	if err != nil {
		return "", err
	}
	text := encode([]byte(`{"alg":"RS256","kid":"1","typ":"JWT"}`)) + "." + encode(payload)
	sum := sha256.Sum256([]byte(text))
	signature, err := rsa.SignPKCS1v15(rand.Reader, i.key, crypto.SHA256, sum[:])
	return text + "." + encode(signature), err
}

func encode(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }
