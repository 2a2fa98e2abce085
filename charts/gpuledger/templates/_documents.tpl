{{/* Rejects values that have no effect in the exporter's mode. */}}
{{- define "gpuledger.checkMode" -}}
{{- $v := .Values }}
{{- if eq $v.exporter.mode "sidecar" }}
{{- $useless := dict "kubeletPath" (ne $v.kubeletPath "/var/lib/kubelet") "nfd.enabled" $v.nfd.enabled "scrapeAnnotations.enabled" $v.scrapeAnnotations.enabled "securityContext.seLinuxOptions" $v.securityContext.seLinuxOptions }}
{{- $_ := set $useless "dcgm.namespace" (ne $v.dcgm.namespace "gpu-operator") }}
{{- $_ := set $useless "dcgm.podLabels" (ne (toJson $v.dcgm.podLabels) (toJson (dict "app" "nvidia-dcgm"))) }}
{{- range list "affinity" "extraEnv" "extraHostVolumes" "extraVolumeMounts" "nodeSelector" "podAnnotations" "podLabels" "resources" "runtimeClassName" "tolerations" "updateStrategy" }}
{{- $_ := set $useless . (get $v .) }}
{{- end }}
{{- if not $v.prepull.enabled }}{{ $_ := set $useless "priorityClassName" $v.priorityClassName }}{{ end }}
{{- range $name, $set := $useless }}{{ if $set }}
{{- fail (printf "%s has no effect with exporter.mode=sidecar, where the exporter is in the device plugin's pods: remove it, or use exporter.mode=daemonset" $name) }}
{{- end }}{{ end }}
{{- if ne (include "gpuledger.injector" .) "webhook" }}{{ range $name, $set := $v.sidecar.webhook }}{{ if $set }}
{{- fail (printf "sidecar.webhook.%s has no effect with an admission policy: remove it, or use sidecar.injector=webhook" $name) }}
{{- end }}{{ end }}
{{- else if not $v.reconciler.enabled }}
{{- fail "sidecar.injector=webhook needs reconciler.enabled: the reconciler serves the webhook" }}
{{- end }}
{{- else }}
{{- range $name, $set := $v.sidecar.webhook }}{{ if $set }}
{{- fail (printf "sidecar.webhook.%s has no effect with exporter.mode=daemonset: remove it, or use exporter.mode=sidecar" $name) }}
{{- end }}{{ end }}
{{- range $section := list "devicePlugin" "sidecar" }}{{ range $name, $set := omit (get $v $section) "webhook" }}{{ if $set }}
{{- fail (printf "%s.%s has no effect with exporter.mode=daemonset: remove it, or use exporter.mode=sidecar" $section $name) }}
{{- end }}{{ end }}{{ end }}
{{- end }}
{{- end }}

{{/* Rejects values for the archive that have no effect, and pages that everyone in the cluster could read. */}}
{{- define "gpuledger.checkArchive" -}}
{{- $v := .Values.archive }}
{{- if not $v.chain.keySecret }}{{ range $name, $set := omit $v.chain "keySecret" }}{{ if $set }}
{{- fail (printf "archive.chain.%s has no effect without archive.chain.keySecret: set it to the Secret with the key" $name) }}
{{- end }}{{ end }}{{ end }}
{{- if and $v.web.enabled (not (or $v.web.insecure $v.web.existingSecret $v.web.readersSecret $v.web.readersConfigMap)) }}
{{- fail "archive.web.enabled would let everyone in the cluster read the books: set archive.web.existingSecret, readersSecret or readersConfigMap, or confirm it with archive.web.insecure=true" }}
{{- end }}
{{- if and $v.web.readersSecret $v.web.readersConfigMap }}
{{- fail "archive.web.readersConfigMap has no effect with archive.web.readersSecret: set one of them" }}
{{- end }}
{{- if not $v.web.enabled }}
{{- range $name, $set := omit $v.web "enabled" "service" }}{{ if $set }}
{{- fail (printf "archive.web.%s has no effect with archive.web.enabled=false" $name) }}
{{- end }}{{ end }}
{{- if $v.web.service.enabled }}{{ fail "archive.web.service.enabled has no effect with archive.web.enabled=false" }}{{ end }}
{{- end }}
{{- if and $v.web.from (not .Values.networkPolicy.enabled) }}
{{- fail "archive.web.from has no effect without networkPolicy.enabled" }}
{{- end }}
{{- end }}

{{/* Rejects values that cannot be set, or cannot be combined. */}}
{{- define "gpuledger.checkValues" -}}
{{- $v := .Values }}
{{- range list "nameOverride" "fullnameOverride" }}
{{- if get $v . }}{{ fail (printf "%s cannot be set: a cluster has one gpuledger, so the names of its objects are fixed, and alerts, dashboards and commands in the documentation contain them" .) }}{{ end }}
{{- end }}
{{- if and $v.podMonitor.enabled $v.serviceMonitor.enabled }}
{{- fail "podMonitor.enabled and serviceMonitor.enabled would scrape every exporter twice: set one of them" }}
{{- end }}
{{- if and $v.clusterPodMonitoring.enabled (not $v.clusterPodMonitoring.trustAllNamespaces) }}
{{- fail "clusterPodMonitoring.enabled selects pods by labels in all namespaces, so every user who can create pods may report energy for any pod. A PodMonitoring would overwrite the label namespace of the series. Confirm it with clusterPodMonitoring.trustAllNamespaces=true, or scrape with a Prometheus of your own." }}
{{- end }}
{{- include "gpuledger.checkArchive" . }}
{{- if and (not $v.archive.serviceAccount.create) $v.archive.serviceAccount.annotations }}
{{- fail "archive.serviceAccount.annotations has no effect with archive.serviceAccount.create=false: annotate the account yourself" }}
{{- end }}
{{- end }}

{{/* Rejects a second release in a cluster, because its cluster-wide objects would have the same names. */}}
{{- define "gpuledger.checkRelease" -}}
{{- if .Values.reconciler.enabled }}
{{- $found := lookup "rbac.authorization.k8s.io/v1" "ClusterRole" "" "gpuledger-reconciler-labels" }}
{{- $annotations := default dict (dig "metadata" "annotations" dict $found) }}
{{- $name := get $annotations "meta.helm.sh/release-name" }}
{{- $namespace := get $annotations "meta.helm.sh/release-namespace" }}
{{- if and $name (ne (printf "%s/%s" $namespace $name) (printf "%s/%s" .Release.Namespace .Release.Name)) }}
{{- fail (printf "this cluster already has gpuledger, as the release %s in the namespace %s, and one exporter is enough for each node. Upgrade that release, or remove it first: helm uninstall %s --namespace %s" $name $namespace $name $namespace) }}
{{- end }}
{{- end }}
{{- end }}

{{/*
Rejects a change of the mode that would leave nodes without an exporter until the device plugin's pods are replaced. The error
contains the next command.
*/}}
{{- define "gpuledger.checkChange" -}}
{{- $namespace := include "gpuledger.namespace" . }}
{{- if eq .Values.exporter.mode "sidecar" }}
{{- if and (lookup "apps/v1" "DaemonSet" $namespace "gpuledger") (not (include "gpuledger.kept" .)) }}
{{- fail (printf "this would remove the DaemonSet %s/gpuledger before the device plugin's pods contain the exporter. Keep it until then: kubectl --namespace %s annotate daemonset/gpuledger serviceaccount/gpuledger-exporter helm.sh/resource-policy=keep" $namespace $namespace) }}
{{- end }}
{{- else if lookup "v1" "ConfigMap" $namespace "gpuledger-sidecar" }}
{{- fail (printf "new pods of the device plugin would still get the exporter, beside the DaemonSet. Stop that first: kubectl --namespace %s delete configmap gpuledger-sidecar. After this upgrade replace the device plugin's pods, which contain the exporter until then" $namespace) }}
{{- end }}
{{- end }}

{{/* Rejects values and releases that cannot be installed. */}}
{{- define "gpuledger.check" -}}
{{- include "gpuledger.checkValues" . }}
{{- include "gpuledger.checkMode" . }}
{{- include "gpuledger.checkRelease" . }}
{{- include "gpuledger.checkChange" . }}
{{- end }}

{{/* Returns the YAML documents of the selected overlay and components. */}}
{{- define "gpuledger.documents" -}}
{{- $overlay := .Values.platform | default "standalone" }}
{{- if eq .Values.exporter.mode "sidecar" }}
{{- if not (has .Values.platform (list "" "gpu-operator" "amd")) }}{{ fail (printf "exporter.mode=sidecar works without a platform and with the platforms gpu-operator and amd, but platform is %s: use exporter.mode=daemonset" .Values.platform) }}{{ end }}
{{- $overlay = "operator" }}
{{- else if eq $overlay "gpu-operator" }}
{{- $overlay = "operator-standalone" }}
{{- end }}
{{- $files := list (printf "overlays/%s.yaml" $overlay) }}
{{- if eq (include "gpuledger.injector" .) "webhook" }}{{ $files = append $files "components/webhook.yaml" }}{{ end }}
{{- if and .Values.reconciler.enabled .Values.reconciler.labels.enabled }}{{ $files = append $files "components/labels.yaml" }}{{ end }}
{{- if and .Values.reconciler.enabled .Values.reconciler.nodeCondition.enabled }}{{ $files = append $files "components/node-condition.yaml" }}{{ end }}
{{- if .Values.archive.enabled }}{{ $files = append $files "components/archive.yaml" }}{{ end }}
{{- if and .Values.archive.enabled .Values.archive.events.enabled }}{{ $files = append $files "components/events.yaml" }}{{ end }}
{{- if and .Values.archive.enabled .Values.archive.chain.configMap }}{{ $files = append $files "components/checkpoints.yaml" }}{{ end }}
{{- if or .Values.podMonitor.enabled .Values.serviceMonitor.enabled }}{{ $files = append $files "components/podmonitor.yaml" }}{{ end }}
{{- if .Values.clusterPodMonitoring.enabled }}{{ $files = append $files "components/clusterpodmonitoring.yaml" }}{{ end }}
{{- if .Values.networkPolicy.enabled }}
{{- $files = append $files "components/isolation.yaml" }}
{{- if and (eq .Values.exporter.mode "sidecar") (not .Values.sidecar.host) }}{{ $files = append $files "components/isolation-sidecar.yaml" }}{{ end }}
{{- if .Values.dcgm.enabled }}{{ $files = append $files "components/dcgm.yaml" }}{{ end }}
{{- end }}
{{- if .Values.prepull.enabled }}{{ $files = append $files "components/prepull.yaml" }}{{ end }}
{{- if .Values.prometheusRule.enabled }}{{ $files = append $files "components/rules.yaml" }}{{ end }}
{{- if .Values.dashboards.enabled }}{{ $files = append $files "components/dashboards.yaml" }}{{ end }}
{{- $documents := list }}
{{- range $files }}
{{- $text := $.Files.Get (printf "files/%s" .) }}
{{- if not $text }}{{ fail (printf "the chart lacks files/%s: install a released chart, or run make chart" .) }}{{ end }}
{{- $documents = append $documents (trim $text) }}
{{- end }}
{{- join "\n---\n" $documents }}
{{- end }}

{{/* Returns a text that is not empty if the values select an object. Arguments: root, object. */}}
{{- define "gpuledger.selected" -}}
{{- $v := .root.Values }}
{{- $component := dig "spec" "selector" "matchLabels" "app.kubernetes.io/component" (dig "spec" "podSelector" "matchLabels" "app.kubernetes.io/component" "" .object) .object }}
{{- $reconciler := or (eq $component "reconciler") (hasPrefix "gpuledger-reconciler" .object.metadata.name) }}
{{- $archive := or (eq $component "archive") (hasPrefix "gpuledger-archive" .object.metadata.name) }}
{{- $exporter := and (eq .object.kind "NetworkPolicy") (eq $component "exporter") }}
{{- $webhook := eq (include "gpuledger.injector" .root) "webhook" }}
{{- $policy := hasPrefix "MutatingAdmissionPolicy" .object.kind }}
{{- $certificates := and $v.sidecar.webhook.existingSecret (eq .object.metadata.name "gpuledger-webhook") (eq .object.kind "Secret") }}
{{- $account := and (eq .object.kind "ServiceAccount") (eq .object.metadata.name "gpuledger-archive") }}
{{- if and (ne .object.kind "Namespace")
  (or $v.reconciler.enabled (not $reconciler))
  (or $v.archive.enabled (not $archive))
  (or $v.archive.serviceAccount.create (not $account))
  (not (and $webhook $policy))
  (not $certificates)
  (or (eq $v.exporter.mode "daemonset") (include "gpuledger.kept" .root) (not $exporter)) }}yes{{ end }}
{{- end }}
