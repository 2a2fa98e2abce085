package podmapper

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/proc"
)

func TestParseLogLink(t *testing.T) {
	trainer := gpu.Owner{Kind: gpu.OwnerPod, Scope: "ml-team", Name: "train-0", UID: uid, Part: "trainer"}
	etcd := gpu.Owner{Kind: gpu.OwnerPod, Scope: "kube-system", Name: "etcd-n1", UID: hash, Part: "etcd"}
	target := "/var/log/pods/ml-team_train-0_" + uid + "/trainer/0.log"

	// These names have the maximum length. The kubelet truncates <pod>_<namespace>_<container>-<id> to 251 bytes and
	// adds ".log".
	longPod := strings.Repeat("p", 200)
	long := gpu.Owner{Kind: gpu.OwnerPod, Scope: "ml-team", Name: longPod, UID: uid, Part: "trainer"}
	longTarget := "/var/log/pods/ml-team_" + longPod + "_" + uid + "/trainer/0.log"
	longName := (longPod + "_ml-team_trainer-" + id)[:251] + ".log"
	longest := gpu.Owner{Kind: gpu.OwnerPod, Scope: "ml-team", Name: strings.Repeat("p", 253), UID: uid, Part: "trainer"}
	longestTarget := "/var/log/pods/ml-team_" + longest.Name + "_" + uid + "/trainer/0.log"

	tests := []struct {
		name, link, target string
		want               logLink
		ok                 bool
	}{
		{"plain", "train-0_ml-team_trainer-" + id + ".log", target, logLink{trainer, id}, true},
		{"restarted", "train-0_ml-team_trainer-" + id + ".log", strings.Replace(target, "0.log", "17.log", 1), logLink{trainer, id}, true},
		{"other root", "train-0_ml-team_trainer-" + id + ".log", "/data/logs/ml-team_train-0_" + uid + "/trainer/0.log", logLink{trainer, id}, true},
		{"static pod", "etcd-n1_kube-system_etcd-" + id + ".log", "/var/log/pods/kube-system_etcd-n1_" + hash + "/etcd/3.log", logLink{etcd, id}, true},
		{"name truncated inside the id", longName, longTarget, logLink{long, id[:251-len(longPod+"_ml-team_trainer-")]}, true},
		{"name truncated before the id", longest.Name[:251] + ".log", longestTarget, logLink{longest, ""}, true},

		{"id alone", id + ".log", target, logLink{}, false},
		{"name truncated inside a malformed id", longName[:250] + "g.log", longTarget, logLink{}, false},
		{"truncated name of another pod", strings.Repeat("q", 251) + ".log", longestTarget, logLink{}, false},
		{"truncated name without .log", longName[:251] + ".gzx", longTarget, logLink{}, false},
		{"short id", "train-0_ml-team_trainer-" + id[1:] + ".log", target, logLink{}, false},
		{"id is not hexadecimal", "train-0_ml-team_trainer-g" + id[1:] + ".log", target, logLink{}, false},
		{"no log", "train-0_ml-team_trainer-" + id, target, logLink{}, false},
		{"name and target disagree", "train-1_ml-team_trainer-" + id + ".log", target, logLink{}, false},
		{"target is Docker's log", "train-0_ml-team_trainer-" + id + ".log", "/var/lib/docker/containers/" + id + "/" + id + "-json.log", logLink{}, false},
		{"target without UID", "train-0_ml-team_trainer-" + id + ".log", "/var/log/pods/ml-team_train-0/trainer/0.log", logLink{}, false},
		{"target with a bad UID", "train-0_ml-team_trainer-" + id + ".log", "/var/log/pods/ml-team_train-0_1234/trainer/0.log", logLink{}, false},
		{"bad name", "Train 0_ml-team_trainer-" + id + ".log", "/var/log/pods/ml-team_Train 0_" + uid + "/trainer/0.log", logLink{}, false},
		{"target rotated", "train-0_ml-team_trainer-" + id + ".log", target + ".gz", logLink{}, false},
		{"target without a number", "train-0_ml-team_trainer-" + id + ".log", strings.Replace(target, "0.log", "x.log", 1), logLink{}, false},
		{"target is not a log", "train-0_ml-team_trainer-" + id + ".log", strings.TrimSuffix(target, ".log"), logLink{}, false},
		{"bad container", "train-0_ml-team_Trainer-" + id + ".log", strings.Replace(target, "trainer", "Trainer", 1), logLink{}, false},
		{"no container", "train-0_ml-team_-" + id + ".log", strings.Replace(target, "trainer", "", 1), logLink{}, false},
		{"target too short", "train-0_ml-team_trainer-" + id + ".log", "0.log", logLink{}, false},
		{"empty", "", "", logLink{}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, ok := parseLogLink(tt.link, tt.target)
			if ok != tt.ok {
				t.Fatalf("parseLogLink(%q, %q) ok = %v, want %v", tt.link, tt.target, ok, tt.ok)
			}
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(logLink{})); ok && diff != "" {
				t.Errorf("parseLogLink(%q, %q) (-want +got):\n%s", tt.link, tt.target, diff)
			}
		})
	}
}

func FuzzLogLink(f *testing.F) {
	f.Add("train-0_ml-team_trainer-"+id+".log", "/var/log/pods/ml-team_train-0_"+uid+"/trainer/0.log")
	f.Add(strings.Repeat("p", 251)+".log", "/var/log/pods/ml-team_"+strings.Repeat("p", 253)+"_"+hash+"/trainer/0.log")
	f.Add("a_b_c-.log", "a_b_"+hash+"/c/0.log")
	f.Fuzz(func(t *testing.T, name, target string) {
		l, ok := parseLogLink(name, target)
		if !ok {
			return
		}
		if !validUID(l.UID) || !validName(l.Scope) || !validName(l.Name) || !validName(l.Part) {
			t.Errorf("%+v is not well formed", l)
		}
		if !proc.IsContainerID(l.id) && (len(name) != maxFileName || !isHex(l.id)) {
			t.Errorf("container id %q of link %q is not well formed", l.id, name)
		}
		if !strings.Contains(target, l.Scope+"_"+l.Name+"_"+l.UID+"/") {
			t.Errorf("%+v does not match the target %q", l, target)
		}
	})
}
