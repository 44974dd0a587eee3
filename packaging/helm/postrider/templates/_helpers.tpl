{{- define "postrider.name" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{ .Release.Name | trunc 52 | trimSuffix "-" }}
{{- else -}}
{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 52 | trimSuffix "-" }}
{{- end -}}
{{- end -}}

{{- define "postrider.selector" -}}
app.kubernetes.io/name: postrider
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "postrider.natsSelector" -}}
app.kubernetes.io/name: postrider-nats
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "postrider.labels" -}}
{{ include "postrider.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{/* Of each setting, an environment variable: POSTRIDER__SECTION__KEY. */}}
{{- define "postrider.settings" -}}
{{- range $section, $keys := .Values.settings }}
{{- range $key, $value := $keys }}
- name: {{ printf "POSTRIDER__%s__%s" $section $key | upper }}
  value: {{ include "postrider.value" $value | quote }}
{{- end }}
{{- end }}
{{- end -}}

{{/* Whole numbers of a YAML file are read as floats. */}}
{{- define "postrider.value" -}}
{{- if kindIs "float64" . }}{{ int64 . }}{{ else }}{{ . }}{{ end -}}
{{- end -}}

{{/* Of a container: everything that the settings need, but for the name of a node. */}}
{{- define "postrider.env" -}}
{{- $cluster := .Values.cluster -}}
# The volume is its group's.
- name: POSTRIDER__SERVER__DATA_GROUP_ACCESS
  value: "true"
- name: POSTRIDER__SERVER__TRUSTED_PROXIES
  value: {{ .Values.trustedProxies | quote }}
{{- $secret := .Values.secrets.existingSecret }}
{{- if $cluster.enabled }}
{{- $secret = required "secrets.existingSecret is needed in a cluster" $secret }}
{{- end }}
{{- with $secret }}
- name: POSTRIDER__SECRETS__MASTER_KEY
  valueFrom:
    secretKeyRef:
      name: {{ . }}
      key: master-key
- name: POSTRIDER__ADMIN__TOKEN
  valueFrom:
    secretKeyRef:
      name: {{ . }}
      key: admin-token
{{- end }}
{{- if $cluster.enabled }}
- name: POSTRIDER__CLUSTER__NAME
  value: {{ $cluster.name | quote }}
- name: POSTRIDER__CLUSTER__NATS
  value: {{ include "postrider.nats" (list . "nats" 4222 $cluster.nats.servers) | quote }}
- name: POSTRIDER__CLUSTER__MONITOR
  value: {{ include "postrider.nats" (list . "http" 8222 $cluster.nats.monitor) | quote }}
{{- if $cluster.nats.credentialsSecret }}
- name: POSTRIDER__CLUSTER__CREDENTIALS
  value: /etc/postrider-nats/nats.creds
{{- end }}
- name: POSTRIDER__CLUSTER__SHARDS
  value: {{ int64 $cluster.shards | quote }}
- name: POSTRIDER__CLUSTER__STREAM_BYTES_MAX
  value: {{ int64 $cluster.streamBytesMax | quote }}
- name: POSTRIDER__CLUSTER__FILES_BYTES_MAX
  value: {{ int64 $cluster.filesBytesMax | quote }}
- name: POSTRIDER__CLUSTER__LISTEN
  value: 0.0.0.0:8082
# The dashboard needs the address that people use (dashboard.public_url); a listener for
# operators does not work in a cluster yet.
- name: POSTRIDER__DASHBOARD__ENABLED
  value: "false"
- name: POSTRIDER__ADMIN__LISTEN
  value: ""
- name: POSTRIDER_SERVER
  value: http://127.0.0.1:8080
{{- end }}
{{- include "postrider.settings" . }}
{{- end -}}

{{/* NATS servers that are named, or else those of the chart: its values, a scheme, a port, the named. */}}
{{- define "postrider.nats" -}}
{{- $name := printf "%s-nats" (include "postrider.name" (first .)) -}}
{{- $scheme := index . 1 -}}
{{- $port := index . 2 -}}
{{- $given := index . 3 -}}
{{- $all := list -}}
{{- range $n := until 3 -}}
{{- $all = append $all (printf "%s://%s-%d.%s:%d" $scheme $name $n $name $port) -}}
{{- end -}}
{{- $given | default (join "," $all) -}}
{{- end -}}

{{/* A check of health, which has to name the server where it has names. */}}
{{- define "postrider.probe" -}}
httpGet:
  path: {{ index . 1 }}
  port: {{ include "postrider.operators" (first .) }}
  {{- with index (index (first .).Values.settings "server" | default dict) "hosts" }}
  httpHeaders:
    - name: Host
      value: {{ splitList "," . | first | trim | quote }}
  {{- end }}
{{- end -}}

{{/* The port of health, metrics and administration. */}}
{{- define "postrider.operators" -}}
{{- if .Values.cluster.enabled }}http{{ else }}operators{{ end -}}
{{- end -}}

{{- define "postrider.securityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{- define "postrider.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
