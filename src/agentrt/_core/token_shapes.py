"""The prefixes of keys and tokens that services issue.

They are those of the public documentation of the services and of the rules of gitleaks
(https://github.com/gitleaks/gitleaks) and detect-secrets (https://github.com/Yelp/detect-secrets).
"""

from __future__ import annotations

from typing import Final

SHAPES: Final = (
    # prefix, and the rest
    (r"[spr]k-", r"[\w-]{16,}"),  # OpenAI, Anthropic, OpenRouter, Langfuse, …
    (r"[spr]k_(?:live|test)_", r"\w{10,}"),  # Stripe, Clerk
    (r"[sp]k\.eyJ", r"[\w-]{20,}\.[\w-]{10,}"),  # Mapbox
    (r"whsec_", r"[A-Za-z0-9+/=]{16,}"),  # Stripe, Svix
    (r"gh[oprsu]_", r"\w{20,}"),
    (r"github_pat_", r"\w{20,}"),
    (r"gl(?:pat|dt|rt|cbt|ptt|ft|soat|imt|agent|ffct|oas)-", r"[\w.-]{16,}"),  # GitLab
    (r"GR1348941", r"[\w-]{20}"),
    (r"xox[abeoprs]-", r"[\w-]{10,}"),  # Slack
    (r"xapp-\d-", r"[\w-]{10,}"),
    (r"(?:AKIA|ASIA|ABIA|ACCA)", r"[A-Z0-9]{16}\b"),  # AWS
    (r"ABSK", r"[A-Za-z0-9+/]{40,}=*"),  # AWS Bedrock
    (r"LTAI", r"[A-Za-z0-9]{17,21}\b"),  # Alibaba Cloud
    (r"AIza", r"[\w-]{30,}"),  # Google
    (r"ya29\.", r"[\w.-]{20,}"),
    (r"GOCSPX-", r"[\w-]{20,}"),
    (r"1//0", r"[\w-]{30,}"),
    (r"hf_", r"[A-Za-z0-9]{20,}"),  # Hugging Face
    (r"npm[_-]", r"[A-Za-z0-9_-]{20,}"),
    (r"pypi[_-]", r"[A-Za-z0-9_-]{20,}"),
    (r"rubygems_", r"[a-f0-9]{32,}"),
    (r"(?:do[opr]_v1)[_-]", r"[A-Za-z0-9_-]{20,}"),  # DigitalOcean
    (r"tskey[_-]", r"[A-Za-z0-9_-]{20,}"),  # Tailscale
    (r"(?:gsk|xai)[_-]", r"[A-Za-z0-9_-]{20,}"),  # Groq, xAI
    (r"hv[sbr]\.", r"[\w-]{20,}"),  # HashiCorp Vault
    (r"SG\.", r"[\w-]{16,}\.[\w-]{16,}"),  # SendGrid
    (r"key-", r"[a-f0-9]{32}\b"),  # Mailgun
    (r"SK", r"[a-f0-9]{32}\b"),  # Twilio
    (r"sq0[a-z]{3}-", r"[\w-]{20,}"),  # Square
    (r"shp(?:at|ca|pa|ss|ua)_", r"[a-fA-F0-9]{32}"),  # Shopify
    (r"dckr_[op]at_", r"[\w-]{20,}"),  # Docker
    (r"lin_(?:api|oauth)_", r"[A-Za-z0-9]{30,}"),  # Linear
    (r"ntn_", r"[A-Za-z0-9]{30,}"),  # Notion
    (r"secret_", r"[A-Za-z0-9]{40,}"),
    (r"figd_", r"[\w-]{20,}"),  # Figma
    (r"PMAK-", r"[a-f0-9]{24}-[a-f0-9]{20,}"),  # Postman
    (r"pul-", r"[a-f0-9]{40}\b"),  # Pulumi
    (r"dapi", r"[a-f0-9]{32}(?:-\d)?\b"),  # Databricks
    (r"gl(?:c|sa)_", r"[A-Za-z0-9_+/=]{30,}"),  # Grafana
    (r"NR(?:AK|JS|II|IQ)-", r"[A-Za-z0-9_-]{16,}"),  # New Relic
    (r"sntry[su]_", r"[A-Za-z0-9_+/=-]{30,}"),  # Sentry
    (r"AT(?:ATT3|CTT3|BB)", r"[A-Za-z0-9_=+/-]{20,}"),  # Atlassian
    (r"CCIP(?:AT|RJ)_", r"[A-Za-z0-9_]{20,}"),  # CircleCI
    (r"bk[a-z]{2}_", r"[a-f0-9]{40}\b"),  # Buildkite
    (r"r8_", r"[A-Za-z0-9]{30,}"),  # Replicate
    (r"f(?:m[12]|o1)_", r"[A-Za-z0-9+/=_-]{30,}"),  # Fly.io
    (r"rnd_", r"[A-Za-z0-9]{20,}"),  # Render
    (r"sb(?:p|_secret)_", r"[A-Za-z0-9_]{20,}"),  # Supabase
    (r"pscale_(?:tkn|pw|oauth)_", r"[\w.=-]{20,}"),  # PlanetScale
    (r"nvapi-", r"[\w-]{30,}"),
    (r"pplx-", r"[A-Za-z0-9]{30,}"),
    (r"AGE-SECRET-KEY-1", r"[A-Z0-9]{50,}"),
    (r"lsv2_[ps][tk]_", r"[A-Za-z0-9_]{20,}"),  # LangSmith
    (r"tvly-", r"[A-Za-z0-9-]{20,}"),
    (r"(?:jina|pcsk|e2b|phx|nfp|vcp|rdme|tfp|fc)_", r"[A-Za-z0-9_]{24,}"),
    (r"dp\.(?:pt|st|ct|sa|scim|audit)\.", r"[A-Za-z0-9._-]{30,}"),  # Doppler
    (r"ops_eyJ", r"[A-Za-z0-9_-]{40,}"),  # 1Password
    (r"sha256~", r"[\w-]{40,}"),  # OpenShift
    (r"dt0[a-z]\d\d\.", r"[A-Z0-9]{20,}\.[A-Z0-9]{40,}"),  # Dynatrace
    (r"AKCp", r"[A-Za-z0-9]{20,}"),  # Artifactory
    (r"[A-Za-z0-9]{14}\.atlasv1\.", r"[\w-]{40,}"),  # Terraform Cloud
    (r"pat[A-Za-z0-9]{14}\.", r"[a-f0-9]{40,}"),  # Airtable
    (r"CFPAT-", r"[\w-]{30,}"),  # Contentful
    (r"EAAC?", r"[A-Za-z0-9]{60,}"),  # Meta, Square
    (r"xkeysib-", r"[a-f0-9]{40,}"),  # Brevo
    (r"(?:bot)?\d{8,10}:AA", r"[\w-]{30,}"),  # Telegram
    (r"[MNO][A-Za-z0-9]{23,27}\.", r"[\w-]{6}\.[\w-]{27,}"),  # Discord
)
"""Prefixes of keys and tokens, which are secrets everywhere if the rest matches, too.

Each prefix is a literal or begins with a short class.
"""
