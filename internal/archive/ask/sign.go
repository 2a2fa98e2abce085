package ask

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/version"

	"github.com/gpuledger/gpuledger/internal/archive/books"
	"github.com/gpuledger/gpuledger/internal/archive/chain"
	"github.com/gpuledger/gpuledger/internal/archive/print"
	"github.com/gpuledger/gpuledger/internal/labelvalue"
)

// statementType is the payload type of a signed statement.
const statementType = "application/vnd.gpuledger.statement.v1+json"

type signedStatement struct {
	Program string    `json:"program"` // version of the program
	Created time.Time `json:"created"`
	Source  string    `json:"source"`
	From    time.Time `json:"from"`
	Until   time.Time `json:"until"`
	By      string    `json:"by"`
	// OfCluster is the cluster of the statement. It is empty if the statement is about all clusters.
	OfCluster string `json:"of_cluster,omitempty"`
	// Chain contains the last entry of each hash chain. It is empty if the source has no chain.
	Chain []head `json:"chain"`
	// Factors contains the prices and carbon settings, by flag.
	Factors map[string]factor `json:"factors"`
	// Statement is the answer in JSON, and Text is the same answer as a table.
	Statement json.RawMessage `json:"statement"`
	Text      string          `json:"text"`
}

type head struct {
	Cluster  string    `json:"cluster"`
	Sequence int64     `json:"sequence"`
	Hash     string    `json:"hash"`
	Time     time.Time `json:"time"`
}

type factor struct {
	Value  string `json:"value"` // value of the flag, or name of the file
	SHA256 string `json:"sha256,omitempty"`
}

func (q *question) sign(ctx context.Context, t Terminal, a print.Answer) error {
	signer, err := chain.ReadSigner(q.Sign)
	if err != nil {
		return fmt.Errorf("--sign: %w", err)
	}
	of, _ := q.billed()
	s := signedStatement{Program: version.Version, Created: q.now, Source: q.source.Name(), From: of.From, Until: of.Until, By: q.By, OfCluster: q.OfCluster}
	if s.Chain, err = q.heads(ctx); err != nil {
		return err
	}
	if s.Factors, err = q.usedFactors(); err != nil {
		return err
	}
	var statement, text bytes.Buffer
	style := print.Style{Zone: time.UTC}
	if err := errors.Join(a.Write(&statement, "json", style), a.Write(&text, "text", style)); err != nil {
		return err
	}
	s.Statement, s.Text = statement.Bytes(), text.String()
	payload, err := json.Marshal(s)
	if err != nil {
		return err
	}
	document, err := signer.Seal(statementType, payload)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(t.Out, "%s\n", document)
	return err
}

func (q *question) heads(ctx context.Context) (all []head, err error) {
	source, ok := q.source.Source.(books.Chained)
	if !ok {
		return nil, nil // a store has no chain
	}
	parts, err := source.Chains(ctx)
	if errors.Is(err, books.ErrNoChain) || err == nil && len(parts) == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	clusters, err := parts[0].Source.Filled(ctx)
	if err != nil {
		return nil, err
	}
	for _, cluster := range slices.Sorted(maps.Keys(clusters)) {
		entries, err := parts[0].Source.Entries(ctx, cluster)
		if err != nil {
			return nil, err
		}
		if n := len(entries); n > 0 && (q.OfCluster == "" || q.OfCluster == cluster) {
			last := entries[n-1]
			all = append(all, head{cluster, last.Sequence, last.Hash, last.At})
		}
	}
	return all, nil
}

func (q *question) usedFactors() (map[string]factor, error) {
	used := make(map[string]factor)
	for flag, path := range map[string]string{"prices": q.Factors.Prices, "carbon": q.Factors.Carbon} {
		if path == "" {
			continue
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("--%s: %w", flag, err)
		}
		sum := sha256.Sum256(text)
		used[flag] = factor{filepath.Base(path), hex.EncodeToString(sum[:])}
	}
	for flag, value := range map[string]string{"carbon.zones": q.Factors.Zones, "pue": q.Factors.PUE} {
		if value != "" {
			used[flag] = factor{Value: value}
		}
	}
	return used, nil
}

// maxDocument is the maximum size of a signed statement, in bytes.
const maxDocument = 64 << 20

// verifyDocument does not read an archive.
func (o *options) verifyDocument(t Terminal) error {
	if o.PublicKey == "" {
		return errors.New("a signed statement requires --public-key")
	}
	keys, err := chain.ReadKeys(o.PublicKey)
	if err != nil {
		return fmt.Errorf("--public-key: %w", err)
	}
	info, err := os.Stat(o.names[0])
	if err != nil {
		return err
	}
	if info.Size() > maxDocument {
		return fmt.Errorf("%s is larger than %d bytes", o.names[0], maxDocument)
	}
	text, err := os.ReadFile(o.names[0])
	if err != nil {
		return err
	}
	payload, key, err := keys.Open(statementType, text)
	if err != nil {
		return fmt.Errorf("%s: %w", o.names[0], err)
	}
	var s signedStatement
	if err := json.Unmarshal(payload, &s); err != nil {
		return fmt.Errorf("%s: %w", o.names[0], err)
	}
	if o.Output == "json" {
		_, err = fmt.Fprintf(t.Out, "%s\n", payload)
		return err
	}
	_, err = fmt.Fprint(t.Out, s.page(key))
	return err
}

// page escapes strings from the document, because they may contain control characters.
func (s signedStatement) page(key string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "The signature is valid (key %s).\n", key)
	fmt.Fprintf(&b, "Program: gpuledger-archive %s, %s\n", labelvalue.Printable(s.Program), s.Created.UTC().Format(time.RFC3339))
	fmt.Fprintf(&b, "Hours: %s to %s of %s\n", stamp(s.From), stamp(s.Until), labelvalue.Printable(s.Source))
	if s.OfCluster != "" {
		fmt.Fprintf(&b, "Cluster: only %s\n", labelvalue.Printable(s.OfCluster))
	}
	for _, h := range s.Chain {
		fmt.Fprintf(&b, "Chain: %s, entry %d of %s, %s\n", labelvalue.Printable(h.Cluster), h.Sequence, h.Time.UTC().Format(time.RFC3339), labelvalue.Printable(h.Hash))
	}
	for _, flag := range slices.Sorted(maps.Keys(s.Factors)) {
		f := s.Factors[flag]
		fmt.Fprintf(&b, "Factors: --%s=%s %s\n", labelvalue.Printable(flag), labelvalue.Printable(f.Value), labelvalue.Printable(f.SHA256))
	}
	b.WriteString("\n")
	for line := range strings.Lines(s.Text) {
		b.WriteString(labelvalue.Printable(strings.TrimSuffix(line, "\n")) + "\n")
	}
	return b.String()
}
