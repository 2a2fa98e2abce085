package archive

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/gpuledger/gpuledger/internal/archive/sinks"
)

func (c *Config) validate() error {
	switch {
	case c.Run && !c.Until.IsZero():
		return errors.New("--until cannot be used with run, because run does not end")
	case c.Run && c.Again:
		return errors.New("--again cannot be used with run: use once")
	case c.Events.Receive && !c.Run:
		return errors.New("--events.receive requires run")
	case c.Events.Receive && len(eventDestinations(c)) == 0:
		return errors.New("--events.receive requires a sink that keeps events: set " + strings.Join(slices.Sorted(slices.Values(sinks.Flags(false))), " or "))
	}
	return errors.Join(c.validateKept(), c.validateEvents(), c.validatePages())
}

func (c *Config) validatePages() error {
	switch {
	case c.Web.Pages && !c.Run && !c.ServeOnly:
		return errors.New("--web.pages requires run or serve")
	case c.Web.Pages && len(keeping(c)) == 0 && (c.Run || c.Web.Settings == ""):
		return errors.New("serve and --web.pages require a sink that can be read: set " + strings.Join(sinks.Flags(true), " or "))
	}
	w := c.Serve.Web()
	return c.Web.Validate(c.Serve.ListenAddresses, len(w.Users) > 0 || w.VerifiesClients())
}

func (c *Config) validatePrune() error {
	switch {
	case c.Prune && c.Before.IsZero():
		return errors.New("prune requires --before with a date such as 2025-01-01")
	case !c.Prune && (c.DryRun || !c.Before.IsZero()):
		return errors.New("--before and --dry-run can only be used with prune")
	}
	return nil
}

func (c *Config) validateKept() error {
	if err := c.validatePrune(); err != nil {
		return err
	}
	flags := sinks.Flags(true)
	required := "a sink that keeps hours: set " + strings.Join(flags[:len(flags)-1], ", ") + " or " + flags[len(flags)-1]
	none := len(keeping(c)) == 0
	switch {
	case c.Prune && none:
		return errors.New("prune requires " + required)
	case c.RenameFrom != "" && none:
		return errors.New("rename-cluster requires " + required)
	case c.Moves.IsSet() && (none || !c.Run):
		return errors.New("--moves.webhook and --moves.file require run, and " + required)
	}
	return nil
}

// maxReason limits the length of --reason, in bytes.
const maxReason = 256

func (c *Config) accept() error {
	if c.Accept == "" {
		return c.withoutAccept()
	}
	switch {
	case c.From.IsZero() || c.to.IsZero():
		return errors.New("accept requires --from and --to with a time")
	case !c.Until.IsZero() || c.Again:
		return errors.New("--until and --again cannot be used with accept")
	case !isReason(c.Reason):
		return fmt.Errorf("--reason=%q: must be one line of at most %d bytes", c.Reason, maxReason)
	case c.Store.Cluster != "" && c.Store.Cluster != c.Accept:
		return fmt.Errorf("accept %s: --cluster=%s names another cluster", c.Accept, c.Store.Cluster)
	}
	c.Until = c.to
	return nil
}

func (c *Config) withoutAccept() error {
	if c.Reason != "" || !c.to.IsZero() {
		return errors.New("--reason and a time in --to can only be used with accept")
	}
	return nil
}

func isReason(text string) bool {
	return strings.TrimSpace(text) != "" && len(text) <= maxReason && utf8.ValidString(text) && !strings.ContainsFunc(text, unicode.IsControl)
}

// validateEvents rejects passwords in the web configuration. They would apply to all paths, but senders of events send
// no password.
func (c *Config) validateEvents() error {
	if !c.Events.Receive {
		return nil
	}
	web := c.Serve.Web()
	if len(web.Users) > 0 {
		return fmt.Errorf("--events.receive: %s contains basic_auth_users, so every request of the reconciler is rejected: remove them, and set --events.token-file", c.Serve.WebConfigFile)
	}
	return c.Events.ValidateAddresses(c.Serve.ListenAddresses, web.VerifiesClients())
}
