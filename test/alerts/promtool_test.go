//go:build e2e

package alerts_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/gpuledger/gpuledger/test/promdoc"
	"github.com/gpuledger/gpuledger/test/prometheus"
)

// TestQueries checks that promtool can parse every query in the runbooks. The shell variables are inside PromQL
// strings, so the test need not replace them.
func TestQueries(t *testing.T) {
	programs, err := prometheus.FromEnv()
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(runbooks + "/*.md")
	if err != nil || len(files) == 0 {
		t.Fatalf("no runbooks: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var list []map[string]string
			for i, query := range promdoc.Blocks(string(text)) {
				list = append(list, map[string]string{"record": "query:" + strings.Repeat("x", i+1), "expr": query})
			}
			if len(list) == 0 {
				return
			}
			text, err = yaml.Marshal(map[string]any{"groups": []any{map[string]any{"name": "queries", "rules": list}}})
			if err != nil {
				t.Fatal(err)
			}
			rules := filepath.Join(t.TempDir(), "rules.yaml")
			if err := os.WriteFile(rules, text, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := programs.Promtool(t.Context(), "check", "rules", rules); err != nil {
				t.Error(err)
			}
		})
	}
}
