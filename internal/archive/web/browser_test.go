//go:build e2e

package web_test

import (
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/gpuledger/gpuledger/internal/archive/web"
)

// TestBrowser opens the pages in Chromium (see tools/page-check/archive.mjs). It needs the packages of
// tools/page-check. It also needs Chromium at the path $CHROMIUM, or at Debian's path.
func TestBrowser(t *testing.T) {
	chromium := os.Getenv("CHROMIUM")
	if chromium == "" {
		chromium = "/usr/bin/chromium"
	}
	for _, needed := range []string{chromium, "../../../tools/page-check/node_modules/axe-core"} {
		if _, err := os.Stat(needed); err != nil {
			t.Fatalf("%s is missing: install Debian's chromium, and run make page-check", needed)
		}
	}
	server := httptest.NewServer(pages(t, web.Config{Pages: true, Settings: settings(t)}, archive(t, nil)))
	defer server.Close()
	out, err := filepath.Abs("../../../bin/page/archive")
	check(t, err)
	cmd := exec.CommandContext(t.Context(), "node", "../../../tools/page-check/archive.mjs", out, server.URL,
		"/", "/statement/2026-10", "/statement/2026-10?by=namespace,pod,node", "/idle/2026-10", "/fleet/2026-10", "/moves/2026-10", "/missing", "/verify/2026-10", "/hours/2026-10", "/board/1653924023101",
		"/where/n1", "/ran?pod=vision-ns/vision-pod")
	cmd.Env = append(os.Environ(), "CHROMIUM="+chromium)
	text, err := cmd.CombinedOutput()
	t.Logf("%s", text)
	check(t, err)
}
