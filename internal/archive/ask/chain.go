package ask

import (
	"context"
	"errors"
	"flag"
	"fmt"

	"github.com/gpuledger/gpuledger/internal/archive/books"
	"github.com/gpuledger/gpuledger/internal/archive/chain"
	"github.com/gpuledger/gpuledger/internal/archive/print"
)

func chained(fs *flag.FlagSet, o *options) {
	fs.BoolVar(&o.Chain, "chain", false, "compare rows with the chain of filed hours: all rows, or the rows in --month, or the rows from --from to --to")
	fs.StringVar(&o.PublicKey, "public-key", "", "`file` with the public keys of the chain in PEM, oldest first")
	fs.StringVar(&o.Witness, "witness", "", "`URL` to which checkpoints were published, as in --chain.publish; used with --chain")
	fs.StringVar(&o.ChainHTTP, "chain.http.config.file", "", "`file` with TLS, authentication and headers for https://… in --witness, in the format of promtool's --http.config.file")
	fs.StringVar(&o.ChainSink, "chain.sink", "", "`name` of the sink to check, such as postgres, if --witness contains checkpoints of several sinks")
}

// source is the name of the database or file format that contains the chain.
type chainReport struct {
	chain.Report
	source string
}

var chainColumns = columns[chainReport]{
	{"cluster", "CLUSTER", print.Text, func(r chainReport) any { return r.Cluster }},
	{"source", "SOURCE", print.Text, func(r chainReport) any { return r.source }},
	{"hours", "HOURS", print.Count, func(r chainReport) any { return int64(r.Hours) }},
	{"entries", "ENTRIES", print.Count, func(r chainReport) any { return r.Head.Sequence }},
	{"signed", "SIGNED", print.Count, func(r chainReport) any { return int64(r.Signed) }},
	{"last", "LAST ENTRY", print.Time, func(r chainReport) any { return r.Head.At }},
	{"head", "HEAD", print.Text, func(r chainReport) any { return r.Head.Hash }},
	{"problems", "PROBLEMS", print.Count, func(r chainReport) any { return int64(len(r.Problems)) }},
	{"ok", "OK", print.Flag, func(r chainReport) any { return len(r.Problems) == 0 }},
}

const maxProblems = 20

func (q *question) verifyChain(ctx context.Context) (print.Answer, error) {
	a := chainColumns.answer()
	source, ok := q.source.Source.(books.Chained)
	if !ok {
		return a, errors.New("only an archive has a chain: select one with --books")
	}
	check, err := q.check(ctx, &a)
	if err != nil {
		return a, err
	}
	parts, err := source.Chains(ctx)
	if err != nil {
		return a, err
	}
	for _, part := range parts {
		reports, err := check.Verify(ctx, part.Source)
		if err != nil {
			return a, fmt.Errorf("%s: %w", part.Name, err)
		}
		for _, r := range reports {
			a.Rows = append(a.Rows, chainColumns.row(chainReport{r, part.Name}))
			a.Notices = append(a.Notices, atMost(maxProblems, r.Problems, "problems of cluster "+r.Cluster, chain.Problem.String)...)
			if q.Witness != "" && r.Published < r.Head.Sequence {
				a.Notices = append(a.Notices, fmt.Sprintf("cluster %s: no checkpoint was published after entry %d of %d, so the removal of later entries would not be detected", r.Cluster, r.Published, r.Head.Sequence))
			}
			q.failed = q.failed || len(r.Problems) > 0
		}
	}
	if len(a.Rows) == 0 {
		return a, fmt.Errorf("%s has no chain", q.source.Name())
	}
	return a, nil
}

func (q *question) check(ctx context.Context, a *print.Answer) (c chain.Check, err error) {
	if !q.Month.IsZero() || !q.From.IsZero() || !q.To.IsZero() || q.since {
		of, _ := q.billed()
		c.From, c.Until = of.From, of.Until
	}
	if q.PublicKey == "" {
		a.Notices = append(a.Notices, "the signatures were not verified: set --public-key")
	} else if c.Keys, err = chain.ReadKeys(q.PublicKey); err != nil {
		return c, fmt.Errorf("--public-key: %w", err)
	}
	if q.Witness == "" {
		return c, nil
	}
	if c.Published, err = chain.Published(ctx, q.Witness, q.ChainHTTP, q.ChainSink); err != nil {
		return c, fmt.Errorf("--witness: %w", err)
	}
	return c, nil
}
